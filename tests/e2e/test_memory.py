"""The reference system from a TOML plan to a page and an exit code, without Docker or rights."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from harness.history.run_folder import RunDir
from targets.memory.plan import DEFECTS
from tests.fixtures.command_line import ackloss
from tests.fixtures.synthetic_run import Story, build
from tests.reports.test_page import Parsed

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]

ROOT = Path(__file__).parents[2]
PLANS = ROOT / "plans" / "memory"
SIMULATED = "No real system was tested"
SET = (
    "workload.name=set",
    "workload.options={ read_share = 0.2 }",
    "checks=[{ name = 'set', linearizable = true }]",
)


@dataclass(frozen=True)
class Run:
    """A run that the command line has run, judged and reported."""

    done: Result
    rundir: RunDir
    result: dict[str, Any]
    page: Parsed

    @property
    def metadata(self) -> dict[str, Any]:
        return self.rundir.read_json(self.rundir.run)


def run(out: Path, plan: str, *changes: str) -> Run:
    """Run a plan; `changes` as `--set` takes them."""
    sets = [word for change in changes for word in ("--set", change)]
    done = ackloss("run", str(PLANS / f"{plan}.toml"), "--out", str(out), *sets)
    (folder,) = out.iterdir()
    rundir = RunDir.open(folder)
    page = Parsed(rundir.report.read_text(encoding="utf-8"))
    return Run(done, rundir, rundir.read_json(rundir.result), page)


@pytest.fixture(scope="module")
def stale(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("stale"), "stale-reads")


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("fresh"), "stale-reads", "target.defects=[]")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Run:
    plan = "acknowledge-before-replication"
    return run(tmp_path_factory.mktemp("kept"), plan, *SET, "target.defects=[]")


@pytest.fixture(scope="module")
def every(stale: Run, fresh: Run, kept: Run) -> list[Run]:
    return [stale, fresh, kept]


def test_there_is_a_plan_for_every_defect_and_a_safe_one_for_every_model() -> None:
    names = {path.stem for path in PLANS.glob("*.toml")} - {"cells", "group-commit-before"}
    safe = {"log", "register", "set", "group", "group-commit-after"}
    safe |= {"transactions", "read-process-write", "list-append", "queue"}
    assert names == {*DEFECTS, *safe}
    for name in names:
        plan = json.loads(ackloss("plan", "show", str(PLANS / f"{name}.toml"), "--json").stdout)
        assert plan["expect"] == ("invalid" if name in DEFECTS else "valid")
        assert plan["target"]["defects"] == ([name] if name in DEFECTS else [])


def test_stale_reads_are_found_and_drawn(stale: Run) -> None:
    assert stale.done.exit_code == 1
    assert stale.result["verdict"] == "invalid"
    assert stale.result["counter_examples"] == ["not_linearizable"]
    assert "stale reads " in stale.done.stdout
    lines = [line for line in stale.done.stdout.splitlines() if not line.lstrip().startswith("[")]
    assert "attempted" not in " ".join(lines), "the words of the loss check are not for registers"
    text = stale.rundir.report.read_text(encoding="utf-8")
    assert 'class="counter-example"' in text
    assert 'class="op stuck' in text
    assert "keys are not linearizable" in stale.page.words
    assert "A smallest counter-example" in stale.page.words
    assert "LOST" not in text, "nothing is lost in a register"
    example = stale.result["checks"][0]["details"]["examples"][0]
    shown = {f"process {each['process']}" for each in example["operations"]}
    assert shown <= set(_lanes(text))


def test_without_the_defect_the_same_plan_is_valid(fresh: Run) -> None:
    assert fresh.done.exit_code == 0
    assert fresh.result["verdict"] == "valid"
    assert "keys are linearizable, under 4 proven faults" in fresh.done.stdout
    assert "A smallest counter-example" not in fresh.page.words
    assert "Lost writes" not in fresh.page.words


def test_a_set_shows_what_became_of_its_elements(kept: Run, tmp_path: Path) -> None:
    assert kept.done.exit_code == 0
    (check,) = kept.result["checks"]
    assert check["counts"]["stable"] == check["counts"]["acknowledged"] > 100
    assert check["details"]["final_read"]["is_final"]
    for word in ("Elements of the set", "stable", "stale", "never read"):
        assert word in kept.page.words
    assert "Latencies" not in kept.page.words, "in virtual time nothing took any"

    broken = run(tmp_path, "acknowledge-before-replication", *SET)
    assert broken.done.exit_code == 1
    assert "lost" in broken.result["counter_examples"]
    counts = broken.result["checks"][0]["counts"]
    share = f"known elements that were lost: {counts['lost']:,} of {counts['acknowledged']:,} ("
    assert share in broken.result["reason"]
    assert share.capitalize() in broken.page.words
    assert "Lost elements" in broken.page.words


def test_the_final_read_of_a_set_is_counted_and_is_no_part_of_the_load(kept: Run) -> None:
    load = kept.metadata["load"]
    plan = kept.rundir.read_json(kept.rundir.plan)
    assert load["final_attempted"] == plan["workload"]["processes"]
    assert load["attempted"] == 720 + load["final_attempted"]
    assert kept.result["gaps"] == []
    assert kept.result["complete"]
    assert kept.metadata["state"] == "done"
    assert not kept.rundir.reads.exists() or not list(kept.rundir.reads.iterdir())
    gap_s = kept.result["availability"]["longest_gap_s"]
    assert gap_s < 1, "the wait before the final read is no gap of the load"


def test_what_ends_without_a_final_read_is_complete(fresh: Run) -> None:
    assert fresh.result["complete"]
    assert fresh.result["doubts"] == []
    assert fresh.metadata["load"]["final_attempted"] == 0
    assert not fresh.rundir.parts(fresh.rundir.reads)


def test_everything_says_that_it_was_simulated(every: list[Run]) -> None:
    for each in every:
        assert each.result["simulated"] is True
        assert each.metadata["simulated"] is True
        assert SIMULATED in each.page.words[:400], "before anything else on the page"
        assert "Simulated: no real system was tested." in each.done.stdout
        shown = ackloss("show", str(each.rundir.path))
        assert "Simulated: no real system was tested." in shown.stdout
        listed = ackloss("ls", "--out", str(each.rundir.path.parent), "--json")
        assert [one["simulated"] for one in json.loads(listed.stdout)["runs"]] == [True]


def test_a_real_run_does_not_say_so(tmp_path: Path) -> None:
    real = build(tmp_path, Story(rate_per_s=10))
    done = ackloss("report", str(real.path))
    assert done.exit_code == 0, done.stderr
    assert SIMULATED not in Parsed(real.report.read_text(encoding="utf-8")).words


def test_simulated_and_real_runs_are_not_compared(fresh: Run, tmp_path: Path) -> None:
    real = build(tmp_path, Story(rate_per_s=10))
    for pair in ((fresh.rundir, real), (real, fresh.rundir)):
        done = ackloss("compare", *(str(each.path) for each in pair))
        assert done.exit_code == 4
        (sentence,) = done.stderr.strip().splitlines()
        assert "simulated and real runs are not compared" in sentence
        assert str(fresh.rundir.path) in sentence
    assert not list(tmp_path.glob("compare-*"))


def test_simulated_runs_are_compared(stale: Run, fresh: Run, tmp_path: Path) -> None:
    page = tmp_path / "both.html"
    runs = (str(stale.rundir.path), str(fresh.rundir.path))
    done = ackloss("compare", *runs, "--page", str(page))
    assert done.exit_code == 0, done.stderr
    assert "Simulated" in done.stdout
    words = Parsed(page.read_text(encoding="utf-8")).words
    assert SIMULATED in words[:400]
    assert "with a counter-example" in words


def test_a_plan_is_run_the_same_way_every_time(fresh: Run, tmp_path: Path) -> None:
    again = run(tmp_path, "stale-reads", "target.defects=[]")
    assert again.result["checks"] == fresh.result["checks"]
    assert again.result["availability"] == fresh.result["availability"]


@pytest.mark.parametrize(
    ("changes", "doubt"),
    [
        (("workload.options.read_share=0", "workload.options.cas_share=0"), "vacuous"),
        (  # the second kill finds the process dead
            (
                "faults.0.nodes=node:n1",
                "faults.0.repeat.times=2",
                "faults.0.repeat.every_s=0.2",
            ),
            "unproven",
        ),
    ],
)
def test_what_proves_nothing_is_unknown_and_never_looks_valid(
    tmp_path: Path, changes: tuple[str, ...], doubt: str
) -> None:
    unknown = run(tmp_path, "stale-reads", "target.defects=[]", *changes)
    assert unknown.done.exit_code == 3
    assert unknown.result["doubts"] == [doubt]
    text = unknown.rundir.report.read_text(encoding="utf-8")
    assert "verdict-unknown" in text
    assert "verdict-valid" not in text.partition("<main>")[2]
    assert "It is not known whether there were inconsistent registers" in unknown.page.words
    assert "these counts prove nothing" in unknown.page.words


def test_with_json_stdout_is_the_result_and_nothing_else(tmp_path: Path) -> None:
    plan = str(PLANS / "duplicate-on-retry.toml")
    done = ackloss("run", plan, "--out", str(tmp_path), "--json", "--seed", "4")
    assert done.exit_code == 1
    document = json.loads(done.stdout)
    assert (document["seed"], document["simulated"], document["model"]) == (4, True, "log")
    assert document["counter_examples"] == ["duplicates"]


def test_as_expected(tmp_path: Path) -> None:
    plan = str(PLANS / "truncate-without-epochs.toml")
    done = ackloss("run", plan, "--out", str(tmp_path), "--as-expected", "-q")
    assert done.exit_code == 0
    (folder,) = tmp_path.iterdir()
    result = RunDir.open(folder)
    document = result.read_json(result.result)
    assert document["counter_examples"] == ["replicas_differ"]
    assert "acknowledged writes another replica lacks 14, leader lacks 14" in document["reason"]
    assert "Replicas hold different records" in Parsed(result.report.read_text("utf-8")).words


def test_a_cluster_that_ends_with_the_process_is_not_kept(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    done = ackloss("run", str(PLANS / "log.toml"), "--keep-cluster", "--out", str(out))
    assert done.exit_code == 4
    (sentence,) = done.stderr.strip().splitlines()
    assert "ends with the process that runs it; leave out --keep-cluster" in sentence
    assert not out.exists()


@pytest.mark.parametrize(
    ("plan", "change", "key", "words"),
    [
        ("register", "workload.options.keys_cont=3", "workload.options.keys_cont",
         "did you mean 'keys_count'?"),
        ("register", "workload.options.read_share=2", "workload.options.read_share",
         "use less than 1"),
        ("register", "workload.name=regster", "workload.name", "did you mean 'register'?"),
        ("register", "checks=['registre']", "checks.0", "did you mean 'register'?"),
        ("register", "checks=['loss']", "checks.0", "these do: register"),
        ("register", "target.defects=['stale-read']", "target.defects.0",
         "did you mean 'stale-reads'?"),
        ("register", "target.partitons=2", "target.partitons", "did you mean 'partitions'?"),
        ("register", "faults.0.nemesis=clock", "faults.kill-leader.nemesis",
         "the levers here are net"),
        ("register", "faults.0.nemesis=client", "faults.kill-leader.nemesis",
         "cannot crash one by one"),
        ("register", "faults.0.nemesis=kil", "faults.kill-leader.nemesis",
         "did you mean 'kill'?"),
        ("set", "workload.options.read_share=1", "workload.options.read_share", "use less than 1"),
        ("log", "target.version=4.3.1", "target.version", "the reference system has none"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence_before_anything_starts(
    tmp_path: Path, plan: str, change: str, key: str, words: str
) -> None:
    out = tmp_path / "runs"
    file = str(PLANS / f"{plan}.toml")
    done = ackloss("run", file, "--set", change, "--out", str(out))
    assert done.exit_code == 4
    (sentence,) = done.stderr.strip().splitlines()
    assert sentence.startswith(f"ackloss: {file}: {key}: ")
    assert words in sentence
    assert not out.exists()


def test_a_model_that_the_target_does_not_serve_is_refused() -> None:
    kafka = str(ROOT / "plans" / "kafka-safe.toml")
    done = ackloss("plan", "validate", kafka, "--set", "workload.name=locks")
    assert done.exit_code == 4
    assert "the model 'lock', which kafka does not serve" in done.stderr


def test_a_campaign_of_simulated_and_real_cells_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "both.toml"
    file.write_text(
        f"""
        schema = 1
        name = "both"
        plan = "{PLANS / "log.toml"}"
        [axes.system.choices]
        memory.set = {{}}
        kafka.set = {{ target = {{ system = "kafka", version = "4.3.1" }}, \
cluster = {{ kind = "docker" }} }}
        """,
        encoding="utf-8",
    )
    done = ackloss("campaign", "plan", str(file))
    assert done.exit_code == 4
    assert "some cells are simulated and some are real" in done.stderr
    assert "their results never mix" in done.stderr


def test_a_dry_run_starts_nothing(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    done = ackloss("run", str(PLANS / "set.toml"), "--dry-run", "--out", str(out))
    assert done.exit_code == 0
    assert "nothing is started" in done.stdout
    assert not out.exists()


def _lanes(text: str) -> Iterator[str]:
    """The names of the lanes of all counter-examples of a page."""
    for part in text.split('<text class="lane"')[1:]:
        yield part.partition(">")[2].partition("<")[0]
