"""The plug-ins of docs/examples/toy, installed as a package of somebody else.

docs/how-to/extending.md shows what runs here, in plans from TOML to page; each works both ways.
"""

from __future__ import annotations

import html
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

import ackloss
from ackloss.cli import main
from harness import registry
from harness.machine.files import remove_abandoned
from harness.models import MODELS
from tests.fixtures.toy import ROOT, TOY, entry_points, install

pytestmark = [pytest.mark.real_time, pytest.mark.usefixtures("undrawn")]

PAGE = (ROOT / "docs" / "how-to" / "extending.md").read_text(encoding="utf-8")
LOSSY, SAFE = TOY / "plans" / "lossy.toml", TOY / "plans" / "safe.toml"

LATE = {"checks": [{"name": "deadline", "limit_ms": 0.001}], "workload.options.hot_share": 0}
EARLY = {
    "faults": [{"id": "early", "at_s": 1, "nemesis": "loosen", "nodes": "node:t2", "for_s": 0.5}],
    "workload.duration_s": 8,  # of 3 s a busy machine takes too much
}
BOTH = {"faults.0.killed_count": 2, "workload.options.hot_share": 0}


@dataclass(frozen=True)
class Outcome:
    """What came of a run, and the text of its page."""

    run: ackloss.Run
    page: str

    @property
    def lost_on(self) -> set[int]:
        """The partitions that lost writes."""
        return set(self.run.writes().query("outcome == 'lost'").partition)

    @property
    def killed(self) -> list[str]:
        """The nodes whose process ended, by the evidence of the fault."""
        (fault,) = self.run.faults().itertuples()
        return sorted(set(re.findall(r"(t\d): process \d+ ended", str(fault.evidence))))

    @property
    def in_memory(self) -> set[int]:
        """The partitions of killed nodes with a write that was acknowledged before the fault.

        On a machine that holds the clients up for a second, a node is killed with none."""
        (fault,) = self.run.faults().itertuples()
        writes = self.run.writes().query("outcome in ('ok', 'lost')")
        answered_s = writes.begin_s + writes.latency_ms / 1000
        on_killed = writes.partition.isin([int(node[1:]) - 1 for node in self.killed])
        return set(writes[on_killed & (answered_s < fault.from_s)].partition)

    def counts(self, check: str) -> Mapping[str, Any]:
        """Of one check."""
        return next(each.counts for each in self.run.result.checks if each.name == check)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that holds the package and what pip notes of it."""
    return install(tmp_path_factory.mktemp("site"), entry_points())


@pytest.fixture(scope="module")
def found(installed: Path) -> Iterator[None]:
    """The package is on Python's path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(installed))
        registry._found.cache_clear()
        yield
    registry._found.cache_clear()


@pytest.fixture(scope="module")
def outcomes(
    found: None, undrawn: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Outcome]:
    """What came of each run."""
    out = tmp_path_factory.mktemp("runs")
    changes: dict[str, tuple[Path, dict[str, Any]]] = {
        "lossy": (LOSSY, {}),
        "safe": (SAFE, {"workload.duration_s": 16}),  # of less a busy machine takes too much
        "late": (SAFE, LATE),
        "both": (LOSSY, BOTH),
        "early": (SAFE, EARLY),
    }
    runs = {name: ackloss.run(plan, set=how, out=out) for name, (plan, how) in changes.items()}
    for name, (plan, how) in changes.items():
        if runs[name].result.verdict == "unknown" and "starved" in runs[name].result.doubts:
            runs[name] = ackloss.run(plan, set=how, out=out)  # its load was held up
    return {
        name: Outcome(run, html.unescape(run.report().read_text())) for name, run in runs.items()
    }


def command(*words: object) -> Result:
    done = CliRunner().invoke(main, [str(word) for word in words], prog_name="ackloss")
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done


def test_every_plug_in_of_the_example_can_be_used(found: None) -> None:
    listed = json.loads(command("list", "--json").stdout)
    assert (listed["unusable"], listed["astray"]) == ({}, [])
    for kind, name in [
        ("nemeses", "kill-first"),
        ("nemeses", "loosen"),
        ("workloads", "hot"),
        ("checkers", "deadline"),
        ("targets", "toy"),
        ("clusters", "local"),
    ]:
        assert listed["plugins"][kind][name]["about"]


def test_a_store_that_acknowledges_too_early_loses_writes(outcomes: dict[str, Outcome]) -> None:
    result = outcomes["lossy"].run.result
    assert result.verdict == outcomes["lossy"].run.plan["expect"] == "invalid"
    assert result.counts.lost > 0
    assert str(result.reason) in outcomes["lossy"].page


def test_a_store_that_acknowledges_what_is_stored_loses_none(outcomes: dict[str, Outcome]) -> None:
    result = outcomes["safe"].run.result
    assert result.verdict == outcomes["safe"].run.plan["expect"] == "valid", result.reason
    assert (result.counts.lost, len(outcomes["safe"].run.findings())) == (0, 0)
    assert result.counts.acknowledged > 100
    assert str(result.reason) in outcomes["safe"].page


def test_the_nemesis_kills_as_many_as_requested(outcomes: dict[str, Outcome]) -> None:
    assert all(outcome.run.faults().proven.all() for outcome in outcomes.values())
    lossy, both = outcomes["lossy"], outcomes["both"]
    assert (lossy.killed, both.killed) == (["t1"], ["t1", "t2"])
    assert lossy.lost_on == lossy.in_memory == {0}, "the second node lived"
    assert both.lost_on >= both.in_memory > set()
    assert both.lost_on <= {0, 1}


def test_a_lever_of_the_target_is_proven_and_undone(outcomes: dict[str, Outcome]) -> None:
    (fault,) = outcomes["early"].run.faults().itertuples()
    assert fault.proven
    before, held, undone = fault.evidence
    assert before == held == "t2: acknowledges what is received"
    assert undone == "t2: acknowledges what is stored"
    assert outcomes["early"].run.result.verdict == "valid", outcomes["early"].run.result.reason


def test_the_workload_prefers_the_partition_of_its_options(outcomes: dict[str, Outcome]) -> None:
    """0.9: 0.8, and half of the rest. How many writes there are depends on the machine."""
    for name, expected in (("safe", 0.9), ("late", 0.5)):
        writes = outcomes[name].run.writes()
        share = float((writes.partition == 0).mean())
        error = (expected * (1 - expected) / len(writes)) ** 0.5
        assert abs(share - expected) < 4 * error < 0.25, (name, share, len(writes))


def test_the_checker_finds_late_writes_and_only_those(outcomes: dict[str, Outcome]) -> None:
    safe, late = (outcomes[name].counts("deadline") for name in ("safe", "late"))
    loss = outcomes["safe"].counts("loss")
    counted = (safe["attempted"], safe["acknowledged"], safe["late"])
    assert counted == (loss["attempted"], loss["acknowledged"], 0)
    assert late["late"] == late["acknowledged"] == len(outcomes["late"].run.findings()) > 0
    assert outcomes["late"].run.result.verdict == "invalid"
    assert str(outcomes["late"].run.result.reason) in outcomes["late"].page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("faults.0.killed_count=0", "faults.kill: killed_count is 0; use 1 or more"),
        ("faults.0.nemesis=partition", "partition needs the lever 'net'"),
        ("workload.options.hot_share=2", "workload.options: hot_share is 2; use 0 to 1"),
        ("workload.name=register", "toy does not serve; toy runs: append, hot"),
        ("target.mode=sometimes", "target.mode: 'sometimes' is not allowed here"),
        ("target.version=1.0", "target.version: the toy store has none; leave it out"),
        ("cluster.kind=memory", "toy cannot run on a cluster of kind 'memory'; it can on: docker"),
    ],
)
def test_what_it_cannot_do_is_refused_in_one_sentence(found: None, change: str, words: str) -> None:
    done = command("plan", "validate", SAFE, "--set", change)
    assert done.exit_code == 4
    (sentence,) = done.stderr.strip().splitlines()
    assert words in sentence


@pytest.mark.parametrize("kind", ["local", "docker"])
def test_a_dry_run_shows_commands_and_acts(found: None, kind: str) -> None:
    done = command("run", "--dry-run", "-v", SAFE, "--set", f"cluster.kind={kind}")
    assert done.exit_code == 0, done.stderr
    assert "server.py --listen" in done.stdout
    assert "nemesis: kill-first" in done.stdout


def servers(folder: Path) -> Iterator[psutil.Process]:
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or ()
        if any(word.startswith(str(folder)) and word.endswith("server.py") for word in words):
            yield process


def test_a_run_that_is_killed_leaves_no_process_and_clean_removes_the_rest(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{installed}{os.pathsep}{ROOT}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = ["run", str(SAFE), "--set", "workload.duration_s=60", "--out", str(tmp_path / "runs")]
    with subprocess.Popen(
        [sys.executable, "-m", "ackloss", *words], stdout=subprocess.DEVNULL
    ) as run:
        until_s = time.monotonic() + 60
        while len(begun := list(servers(tmp_path))) < 2 and time.monotonic() < until_s:
            time.sleep(0.1)
        run.send_signal(signal.SIGKILL)
    gone, alive = psutil.wait_procs(begun, timeout=10)
    assert (len(gone), alive) == (2, [])
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (left,) = tmp_path.glob(f"ackloss-{run.pid}-*")
    assert remove_abandoned(dry_run=False) == [f"temporary folder {left}"]
    assert not left.exists()


@pytest.mark.full
@pytest.mark.docker
def test_the_same_system_runs_in_containers(found: None, tmp_path: Path) -> None:
    for plan, verdict in ((LOSSY, "invalid"), (SAFE, "valid")):
        run = ackloss.run(plan, set={"cluster.kind": "docker"}, out=tmp_path)
        assert run.result.verdict == verdict, run.result.reason


def test_the_code_of_the_page_is_that_of_the_example() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    sources = [file.read_text(encoding="utf-8") for file in (TOY / "ackloss_toy").glob("*.py")]
    assert len(blocks) == 1
    assert all(any(block in source for source in sources) for block in blocks)
    (entry,) = re.findall(r"```toml\n\[project.*\n(.*)\n```", PAGE)
    assert entry in (TOY / "pyproject.toml").read_text(encoding="utf-8")


def test_the_page_lists_every_model() -> None:
    models = re.findall(r"^\| `([\w-]+)` \| (`\w+`: .*?) \| ", PAGE, re.MULTILINE)
    assert [name for name, _ in models] == list(MODELS)
    for name, functions in models:
        assert set(re.findall(r"(?:^|; )`([\w-]+)`(?=:|;|$)", functions)) == MODELS[name].functions
