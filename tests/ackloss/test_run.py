"""Plans run from Python, on the reference system: no Docker, a few seconds."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

import ackloss
from harness.plan import read_plan
from tests.fixtures.command_line import ackloss_json
from tests.fixtures.memory_plans import LOSES, SHORT

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def losing(tmp_path_factory: pytest.TempPathFactory) -> ackloss.Run:
    """A run that loses acknowledged writes."""
    return ackloss.run("memory/log", set=LOSES, seed=3, out=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def keeping(tmp_path_factory: pytest.TempPathFactory) -> ackloss.Run:
    """The same run without the defect, which loses nothing."""
    return ackloss.run("memory/log", seed=3, out=tmp_path_factory.mktemp("runs"))


def test_a_run_is_judged_both_ways(losing: ackloss.Run, keeping: ackloss.Run) -> None:
    assert (keeping.result.verdict, keeping.result.counts.lost) == ("valid", 0)
    assert losing.result.verdict == "invalid"
    assert losing.result.counts.lost > 0
    assert losing.result.counts.acknowledged == keeping.result.counts.acknowledged == 4000


def test_what_the_caller_gave_is_recorded(losing: ackloss.Run) -> None:
    assert losing.plan["target"]["defects"] == LOSES["target.defects"]
    assert losing.metadata.seed == losing.result.seed == 3
    assert losing.metadata.plan_file == "memory/log"
    change = 'target.defects=["acknowledge-before-replication"]'
    assert losing.metadata.command == ("ackloss", "run", "memory/log", "--set", change)
    assert losing.id == losing.path.name == losing.result.run_id
    assert losing.simulated


def test_the_recorded_command_makes_the_same_plan(tmp_path: Path) -> None:
    sets = {**SHORT, "name": 'a "b"', "workload.options": {}, "checks": [{"name": "loss"}]}
    run = ackloss.run("memory/log", set=sets, out=tmp_path)
    changes = [word for word in run.metadata.command[3:] if word != "--set"]
    document = read_plan(ROOT / "plans/memory/log.toml", changes)
    assert document["name"] == 'a "b"'
    assert document["checks"] == [{"name": "loss"}]
    assert document["workload"]["options"] == {}
    assert document["faults"] == []


def test_a_plan_is_found_by_path_too(tmp_path: Path) -> None:
    run = ackloss.run(ROOT / "plans" / "memory" / "log.toml", set=SHORT, out=tmp_path)
    assert run.result.counts.attempted == 100
    assert run.path.parent == tmp_path


@pytest.mark.parametrize(
    ("plan", "sets", "words"),
    [
        ("memory/lgo", {}, "did you mean 'memory/log'"),
        ("memory/log", {"workload.rate_pers": 3}, "memory/log: workload.rate_pers: "),
        ("memory/log", {"workload.name.x": 3}, "memory/log: --set workload.name.x: "),
        ("memory/log", {"target.defects": ["xyz"]}, "there is no defect 'xyz'"),
        ("no-such-file.toml", {}, "no-such-file.toml: cannot be read"),
    ],
)
def test_a_bad_plan_is_an_error_and_makes_nothing(
    tmp_path: Path, plan: str, sets: dict[str, object], words: str
) -> None:
    with pytest.raises(ackloss.PlanError) as caught:
        ackloss.run(plan, set=sets, out=tmp_path / "runs")
    assert words in str(caught.value)
    assert not (tmp_path / "runs").exists()


def test_a_full_disk_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.run.runner.free_bytes", lambda _: 5)
    with pytest.raises(ackloss.EnvironmentFailure, match="free some space"):
        ackloss.run("memory/log", set=SHORT, out=tmp_path)


def test_what_dead_runs_left_is_removed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    monkeypatch.setattr("harness.run.runner.clean_before", lambda *_: done.append("clean"))
    monkeypatch.setattr("harness.run.runner.require", lambda *_, **__: done.append("require"))
    ackloss.run("memory/log", set=SHORT, out=tmp_path)
    assert done == ["clean", "require"]


def test_runs_in_another_thread_and_leaves_signals_alone(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT)
    runs: list[ackloss.Run] = []
    thread = threading.Thread(
        target=lambda: runs.append(ackloss.run("memory/log", set=SHORT, out=tmp_path))
    )
    thread.start()
    thread.join(timeout=60)
    assert [run.result.counts.attempted for run in runs] == [100]
    ackloss.run("memory/log", set=SHORT, out=tmp_path)
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_in_the_main_thread_interrupts_and_keeps_what_was_recorded(tmp_path: Path) -> None:
    script = textwrap.dedent(
        """
        import os, signal, sys, threading, time
        from pathlib import Path
        import ackloss

        def press():
            while not list(Path("runs").glob("*/run.json")):
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=press, daemon=True).start()
        try:
            ackloss.run("memory/log", set={"workload.duration_s": 3000})
        except ackloss.Interrupted as error:
            print("interrupted", len(list(Path("runs").glob("*/plan.json"))), error.exit_code)
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert done.stdout == "interrupted 1 130\n"


def test_ctrl_c_while_a_run_is_checked_interrupts_and_leaves_it_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        judge = "checkers.judging.many_runs.judge"
        patched.setattr(judge, lambda *_: signal.raise_signal(signal.SIGINT))
        with pytest.raises(ackloss.Interrupted, match="the run is complete"):
            ackloss.run("memory/log", set=SHORT, out=tmp_path)
    (folder,) = tmp_path.iterdir()
    assert ackloss_json("check", folder)["verdict"] == "valid"


def test_a_plug_in_of_another_package_is_run(tmp_path: Path) -> None:
    """A workload that inherits from `ackloss.Workload`, found by its entry point."""
    (tmp_path / "their_workload.py").write_text(
        textwrap.dedent(
            '''
            from dataclasses import dataclass
            from typing import ClassVar
            import ackloss
            from ackloss.plugins import invoke

            @dataclass(frozen=True, kw_only=True)
            class Sevens(ackloss.Workload):
                """Appends multiples of seven."""

                plugin: ClassVar[str] = "sevens"
                model: ClassVar[str] = "log"

                def script(self, process, processes, partitions, seed):
                    number = process
                    while True:
                        yield invoke("append", value=7 * number, partition=0)
                        number += processes
            '''
        )
    )
    info = tmp_path / "their_workload-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-workload\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[ackloss.plugins]\nworkloads.sevens = their_workload:Sevens\n"
    )
    script = (
        "import ackloss; sets = {'workload.name': 'sevens', **%r}; "
        "run = ackloss.run('memory/log', set=sets); "
        "print(run.result.verdict, sorted(run.writes().value)[:3])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script % dict(SHORT)],
        cwd=tmp_path,
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout == "valid [0, 7, 14]\n", done.stderr


def test_a_cluster_of_ones_own_is_named_as_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "plan.toml").write_text('schema = 1\nname = "p"\n[target]\nversion = "4.3.1"\n')
    (tmp_path / "theirs.toml").write_text('kind = "external"\nbootstrap = ["127.0.0.1:1"]\n')
    with (
        pytest.warns(UserWarning, match=r"plan\.toml: target\.version is ignored"),
        pytest.raises(ackloss.EnvironmentFailure, match="the cluster cannot be reached") as refused,
    ):
        ackloss.run(tmp_path / "plan.toml", cluster=tmp_path / "theirs.toml", out=tmp_path / "out")
    assert refused.value.key == "bootstrap"
    (metadata,) = (tmp_path / "out").glob("*/run.json")
    assert '"--cluster"' in metadata.read_text()
    with pytest.raises(ackloss.PlanError, match="the plan is for memory, the cluster is kafka"):
        ackloss.run("memory/log", cluster=tmp_path / "theirs.toml", out=tmp_path / "out")
