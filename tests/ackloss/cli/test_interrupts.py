"""Ctrl-C while a command still starts, and while a run is checked."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from tests.fixtures.budget import full, full_of
from tests.fixtures.command_line import ackloss, ackloss_json

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

INTERRUPTED = """
import signal, sys, time
class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            {interrupt}
signal.signal(signal.SIGINT, signal.{handler})  # which a job in the background ignores
sys.meta_path.insert(0, Interrupting())
sys.argv = ["ackloss", *{words!r}]
from ackloss.__main__ import main
main()
"""
RAISED = "signal.raise_signal(signal.SIGINT)"
LOST = f"""
            try:
                {RAISED}
            except BaseException:
                pass
"""
"""As in a library that does without a module that it cannot import."""


def interrupted(
    words: list[str],
    module: str,
    interrupt: str = RAISED,
    handler: str = "default_int_handler",
) -> subprocess.CompletedProcess[str]:
    """A command that meets an interrupt when it imports a module."""
    script = INTERRUPTED.format(words=words, module=module, interrupt=interrupt, handler=handler)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("module", "interrupt"),
    [
        ("ackloss.cli", RAISED),
        ("rich_click", RAISED),
        ("ackloss.cli.stored", RAISED),
        ("rich_click", LOST),
        ("targets.kafka", LOST),
        ("targets.kafka", f"{RAISED}; {RAISED}; time.sleep(60)"),
    ],
    ids=["cli", "rich_click", "stored", "rich_click-lost", "kafka-lost", "kafka-hangs"],
)
def test_an_interrupt_while_the_command_line_is_imported_is_one_line(
    module: str, interrupt: str
) -> None:
    """Though the import would lose it; and a second one ends an import that hangs."""
    done = interrupted(["version"], module, interrupt)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ackloss: interrupted\n")


@pytest.mark.parametrize(
    ("words", "module"),
    [
        (["run", "memory/log", "--out", "{out}"], "targets.kafka"),
        *full_of(
            (["run", "memory/log", "--out", "{out}"], "reports.page"),
            (["run", "memory/log", "--out", "{out}"], "harness.run.resolving"),
            (["run", "--help"], "targets.memory"),
            (["campaign", "run", "no-such-file"], "harness.campaigns.loading"),
        ),
    ],
)
def test_an_interrupt_of_a_command_that_starts_is_one_line(
    words: list[str], module: str, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    done = interrupted([word.format(out=out) for word in words], module)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ackloss: interrupted\n")
    assert not out.exists()


def test_an_ignored_interrupt_stays_ignored() -> None:
    done = interrupted(["version"], "targets.kafka", handler="SIG_IGN")
    assert (done.returncode, done.stderr) == (0, "")


CHECK = "checkers.judging.many_runs.judge"
PAGE = "reports.page.write_report"


@pytest.mark.parametrize(
    ("step", "verb", "does", "left"),
    [
        (CHECK, "check", "judges it", "not checked yet"),
        (PAGE, "report", "writes its page", "VALID"),
    ],
)
def test_an_interrupt_after_a_run_starts_no_further_one_and_leaves_it_complete(
    step: str, verb: str, does: str, left: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(step, lambda *_: signal.raise_signal(signal.SIGINT))
        done = ackloss("run", "memory/log", "memory/log", "--out", tmp_path)
    (folder,) = tmp_path.iterdir()
    assert done.exit_code == 130
    assert done.stderr == (
        f"ackloss: interrupted, but the run is complete; `ackloss {verb} {folder}` {does}\n"
    )
    assert left in ackloss("show", folder).stdout
    assert ackloss_json("check", folder)["verdict"] == "valid"
    assert ackloss("report", folder).exit_code == 0


@pytest.mark.parametrize("step", [CHECK, *full(PAGE)])
def test_an_interrupt_that_is_lost_after_a_run_is_not(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, _, name = step.rpartition(".")
    whole = getattr(import_module(where), name)

    def losing(*args: object) -> object:
        with suppress(BaseException):
            signal.raise_signal(signal.SIGINT)
        return whole(*args)

    monkeypatch.setattr(step, losing)
    done = ackloss("run", "memory/log", "memory/log", "--out", tmp_path)
    (folder,) = tmp_path.iterdir()
    assert done.exit_code == 130
    assert (folder / "result.json").is_file()
