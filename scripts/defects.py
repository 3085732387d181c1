#!/usr/bin/env python3
"""Write docs/evidence/defects.md: which check finds which defect of the reference system.

    scripts/defects.py [--seeds 200] [--workers 2] [--checks delivery] [--defects DEFECT]

Each plan in plans/memory that is named after a defect is run with every check that fits, with the
defect and without it, through the whole path: plan, run, check. Needs no Docker and no rights.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from checkers.judging.one_run import judge_run
from harness.history.run_folder import new_run_id
from harness.plan import parse_plan, read_plan
from harness.run.interrupts import Interrupts
from harness.run.resolving import resolve
from harness.run.runner import RunOptions, run_plan
from targets.memory.plan import (
    DEFECTS,
    DUPLICATES,
    FORGETFUL,
    GROUP_DEFECTS,
    LOOSE_CAS,
    NO_EPOCHS,
    QUEUE_DEFECTS,
    STALE_READS,
    TRANSACTION_DEFECTS,
)

ROOT: Final = Path(__file__).parents[1]
PLANS: Final = ROOT / "plans" / "memory"
PAGE: Final = ROOT / "docs" / "evidence" / "defects.md"

RUNS_OF_WORKER: Final = 200
"""Garbage of a run is never collected in its process."""

BATCH: Final = 10
"""Seeds after which the page is written, so that it can be read while the rest is run."""

WORKLOADS: Final[Mapping[str, tuple[str, Mapping[str, Any]]]] = {
    "loss": ("append", {}),
    "register": ("register", {"keys_count": 100, "read_share": 0.5, "cas_share": 0.1}),
    "set": ("set", {"read_share": 0.2}),
    "delivery": ("consume", {"process_ms": 4, "session_s": 0.6}),
    "kafka": ("transactions", {"pause_ms": 15}),
    "queue": ("queue", {"dequeue_share": 0.3}),
    "list-append": ("list-append", {}),
}
"""By check: the workload that it judges, and its options where the plan has another workload."""

CHECKS: Final[Mapping[str, object]] = {
    "loss": "loss",
    "register": "register",
    "set": {"name": "set", "linearizable": True},
    "delivery": "delivery",
    "kafka": "kafka",
    "queue": {"name": "queue", "once": True},
    "list-append": "list-append",
}

LONGER: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    (FORGETFUL, "register"): {"times": 12, "duration_s": 17},
    (NO_EPOCHS, "register"): {"times": 8, "duration_s": 11},
    (DUPLICATES, "register"): {"keys_count": 10},
    (DUPLICATES, "queue"): {"dequeue_share": 0.05},
}
"""Where one run shows a check too little: how many times its fault comes and how long the load
lasts, or the keys of its registers. A register shows an anomaly only until its next write; and a
dequeue of unknown outcome may have removed what is missing."""

NO_CAS: Final = "its workload has no compare-and-set"
UNFIT: Final[Mapping[tuple[str, str], str]] = {
    (STALE_READS, "loss"): "its workload reads only once, at the end, when no replica is stale",
    (LOOSE_CAS, "loss"): NO_CAS,
    (LOOSE_CAS, "set"): NO_CAS,
    (LOOSE_CAS, "delivery"): NO_CAS,
    (LOOSE_CAS, "kafka"): NO_CAS,
    (LOOSE_CAS, "queue"): NO_CAS,
    (LOOSE_CAS, "list-append"): NO_CAS,
    (STALE_READS, "queue"): "a dequeue changes the queue, so only the leader answers it",
    (FORGETFUL, "kafka"): "the truncated entry may be a transaction marker; the final reads then "
    "never reach the end of the log, and the run is `unknown`",
    (STALE_READS, "kafka"): "a poll may always lag behind, and the final reads wait for the end",
    (NO_EPOCHS, "delivery"): "the logs of two replicas differ, so the two final reads contradict "
    "each other and the run is `unknown`",
    (DUPLICATES, "delivery"): "a group may see a record twice, because both copies are in the log",
    **{
        (defect, check): "its workload has no consumers"
        for defect in DEFECTS
        if defect in GROUP_DEFECTS
        for check in ("loss", "register", "set", "kafka", "queue", "list-append")
    },
    **{
        (defect, check): "its workload has no transactions on logs"
        for defect in DEFECTS
        if defect in TRANSACTION_DEFECTS
        for check in ("loss", "register", "set", "delivery", "queue", "list-append")
    },
    **{
        (defect, check): "its workload has no queue"
        for defect in DEFECTS
        if defect in QUEUE_DEFECTS
        for check in ("loss", "register", "set", "delivery", "kafka", "list-append")
    },
}
"""Why a check cannot see a defect at all."""

ELSEWHERE: Final[Mapping[str, str]] = {
    "client": "it judges the processes of `--client`; here clients are simulated. On Kafka: "
    "`tests/e2e/test_any_client.py`",
    "failover": "it measures, and finds what is late where a plan says `within_s`. On Kafka: "
    "`plans/failover.toml`",
    "rw-register": "registers do not show the order of their versions, so it finds less than "
    "`list-append`; `tests/e2e/test_elle_in_memory.py` switches some defects on",
    "locks": "no locks here. `stale-locks.toml` (invalid), `locks.toml` (valid)",
    "order": "it compares the order of a producer's appends and acknowledgements",
    "quorum": "no metadata log here. On Kafka: `plans/claims/c12-new-disk-static.toml` (invalid), "
    "`plans/claims/c12-new-disk.toml` (valid)",
    "replicas": "it compares final reads of several nodes; here only the leader serves them. "
    "`zookeeper-4925.toml` (invalid), `zookeeper-4925-fixed.toml` (valid)",
    "sequence": "no numbers are handed out here. `sequential-no-force-sync.toml` (invalid), "
    "`sequential.toml` (valid)",
    "watches": "no watches here. `watches.toml` (valid)",
}
"""The other checkers: why they have no column, and which tests judge them."""

FOUND_SHARE: Final = 0.8
"""What share of the runs with a defect must be `invalid` in the test of the table."""

VALID_SHARE: Final = 0.9
"""What share of the runs without it must be `valid`; none may be `invalid`."""


class Cell(NamedTuple):
    """A defect's plan, run with a check, with the defect on or off."""

    defect: str
    check: str
    on: bool


@dataclass(frozen=True)
class Tally:
    """How the runs of a cell ended: how many in which verdict, and what was found how often."""

    verdicts: Mapping[str, int]
    found: Mapping[str, int]

    @property
    def runs(self) -> int:
        return sum(self.verdicts.values())

    @property
    def invalid(self) -> int:
        return self.verdicts.get("invalid", 0)

    @property
    def unknown(self) -> int:
        return self.verdicts.get("unknown", 0)


def cells(checks: Iterable[str] = CHECKS, defects: Iterable[str] = DEFECTS) -> list[Cell]:
    """These defects with every one of these checks that fits, with and without the defect."""
    return [
        Cell(defect, check, on)
        for defect in defects
        for check in checks
        if (defect, check) not in UNFIT
        for on in (True, False)
    ]


def document(cell: Cell, seed: int) -> dict[str, Any]:
    """The plan of a cell as TOML data."""
    plan = read_plan(PLANS / f"{cell.defect}.toml")
    name, options = WORKLOADS[cell.check]
    workload, longer = plan["workload"], LONGER.get((cell.defect, cell.check), {})
    own = dict(workload.get("options", {})) if workload["name"] == name else dict(options)
    own |= {key: longer[key] for key in own.keys() & longer.keys()}
    target = {**plan["target"], "defects": [cell.defect] if cell.on else []}
    duration_s = longer.get("duration_s", workload["duration_s"])
    changed = {
        "workload": {**workload, "name": name, "options": own, "duration_s": duration_s},
        "target": target,
        "faults": [_repeated(step, longer) for step in plan["faults"]],
    }
    return {**plan, **changed, "seed": seed, "checks": [_check(plan, cell)], "expect": None}


def _check(plan: Mapping[str, Any], cell: Cell) -> object:
    """The plan's own check of that name with its options, if it has any, or else that of CHECKS."""
    own = [each for each in plan["checks"] if not isinstance(each, str)]
    return next((each for each in own if each["name"] == cell.check), CHECKS[cell.check])


def _repeated(step: dict[str, Any], longer: Mapping[str, Any]) -> dict[str, Any]:
    """A step of a plan that is repeated as often as requested."""
    if "times" not in longer or "repeat" not in step:
        return step
    return {**step, "repeat": {**step["repeat"], "times": longer["times"]}}


Outcome = tuple[str, tuple[str, ...]]
"""A verdict, and the counter-examples or else the doubts."""


def outcome(cell: Cell, seed: int) -> Outcome:
    """Run the plan of a cell."""
    resolved = resolve(parse_plan(document(cell, seed)))
    with tempfile.TemporaryDirectory() as folder, Interrupts() as interrupts:
        how = RunOptions(run_id=new_run_id(), folder=Path(folder), interrupts=interrupts)
        result = judge_run(run_plan(resolved, how))
    return result["verdict"], tuple(result["counter_examples"] or result["doubts"])


def outcome_among_many(cell: Cell, seed: int) -> Outcome:
    """The same in a process that executes many. Each run collects garbage before its load: what the
    process has loaded once is not, and looking through it takes a third of the time."""
    gc.freeze()
    return outcome(cell, seed)


def tally(outcomes: Iterable[Outcome]) -> Tally:
    """The outcomes of a cell, counted."""
    verdicts, found = Counter[str](), Counter[str]()
    for verdict, names in outcomes:
        verdicts[verdict] += 1
        found.update(names)
    return Tally(dict(verdicts), dict(found.most_common()))


def page(tallies: Mapping[Cell, Tally], before: str = "") -> str:
    """docs/evidence/defects.md. Of cells that were not run it keeps the entries of `before`."""
    parts = [
        "# Which check finds which defect",
        "For each defect of the [reference system](../reference/memory.md) and each check that "
        "fits: the runs with the defect that are `invalid`; then those of the same plan and seeds "
        "without it. `scripts/defects.py` runs the plan in `plans/memory/` that is named after the "
        f"defect. `make e2e` requires at least {FOUND_SHARE * 100:g} % of the first and none of "
        f"the second, of which at least {VALID_SHARE * 100:g} % must be `valid`. Everything is "
        "simulated: this tests ackloss, not a real system.",
        table(tallies, before),
        "`-`: the check cannot see the defect, because",
        "\n".join(unfit()),
        "## Checks without a column",
        "The reference system has nothing for these to judge. Their tests are in "
        "`tests/checkers/`; plans without a folder are in `plans/zookeeper/`. `make e2e` runs "
        "them.",
        "\n".join(f"- `{check}`: {why}." for check, why in ELSEWHERE.items()),
        notes(),
    ]
    return "\n\n".join(parts) + "\n"


def unfit() -> Iterator[str]:
    """Why checks cannot see defects: one line for each reason."""
    for why in dict.fromkeys(UNFIT.values()):
        which = [pair for pair, reason in UNFIT.items() if reason == why]
        if len(which) > 1:
            checks = ", ".join(f"`{check}`" for check in dict.fromkeys(name for _, name in which))
            yield f"- {checks}: {why}."
        else:
            ((defect, check),) = which
            yield f"- `{check}`, {defect}: {why}."


def table(tallies: Mapping[Cell, Tally], before: str) -> str:
    """A row for each defect, a column for each check."""
    earlier = dict(_entries_before(before))
    lines = [f"| defect | {' | '.join(CHECKS)} |", f"|---|{'---|' * len(CHECKS)}"]
    for defect in DEFECTS:
        each = (_entry(tallies, defect, check, earlier) for check in CHECKS)
        lines.append(f"| {defect} | {' | '.join(each)} |")
    return "\n".join(lines)


def notes() -> str:
    """Why some numbers are not all or nothing."""
    return (
        "A register holds only the last value, so with few keys (10 instead of the 100 here) the "
        "register check does not find truncate-without-epochs. "
        f"To get a finding in each run, {_longer()}. "
        "In the runs of truncate-without-epochs that are `unknown`, the log of one replica lacks "
        "the end of a transaction, or readers differ."
    )


def _longer() -> str:
    """Which cells are run with what in place of what their plan has."""
    each = (
        f"{defect} is run with " + ", ".join(f"`{key} = {value}`" for key, value in changed.items())
        for (defect, _), changed in LONGER.items()
    )
    return "; ".join(each)


def _entries_before(before: str) -> Iterator[tuple[tuple[str, str], str]]:
    """The entries of the table as it was, by defect and check."""
    rows = [line.strip("| ").split(" | ") for line in before.splitlines() if line[:2] == "| "]
    for defect, *entries in rows[1:]:
        for check, entry in zip(rows[0][1:], entries, strict=False):
            yield (defect, check), entry


def _entry(
    tallies: Mapping[Cell, Tally], defect: str, check: str, earlier: Mapping[tuple[str, str], str]
) -> str:
    if (defect, check) in UNFIT:
        return "-"
    if Cell(defect, check, True) not in tallies:
        return earlier.get((defect, check), "not run")
    on, off = (tallies[Cell(defect, check, which)] for which in (True, False))
    return f"{_counted(on)}; {_counted(off)}"


def _counted(each: Tally) -> str:
    unknown = f" ({each.unknown} unknown)" if each.unknown else ""
    return f"{each.invalid}/{each.runs}{unknown}"


def same_plans(chosen: Iterable[Cell]) -> dict[Cell, Cell]:
    """Each cell, and the first of them whose plan differs from its own in words alone: it is run
    for both."""
    first: dict[bytes, Cell] = {}
    return {cell: first.setdefault(_without_words(cell), cell) for cell in chosen}


def run_all(chosen: Sequence[Cell], seeds: int, workers: int) -> Iterator[dict[Cell, Tally]]:
    """Run every cell, a batch of seeds at a time; the tallies so far, after each batch."""
    run_as = same_plans(chosen)
    outcomes: dict[Cell, list[Outcome]] = {cell: [] for cell in run_as.values()}
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(workers, maxtasksperchild=RUNS_OF_WORKER) as pool:
        for begin in range(0, seeds, BATCH):
            batch = range(begin, min(begin + BATCH, seeds))
            for cell, each in outcomes.items():
                each += pool.map(partial(outcome_among_many, cell), batch, chunksize=1)
            yield {cell: tally(outcomes[run]) for cell, run in run_as.items()}


def _without_words(cell: Cell) -> bytes:
    return orjson.dumps({**document(cell, 0), "name": "", "about": ""})


def main() -> None:
    """Run all of it, and write the page after each batch of seeds."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200, help="runs of each cell")
    parser.add_argument("--workers", type=int, default=2, help="processes in parallel")
    parser.add_argument(
        "--defects", nargs="+", choices=list(DEFECTS), default=list(DEFECTS), help="only these"
    )
    parser.add_argument(
        "--checks", nargs="+", choices=list(CHECKS), default=list(CHECKS), help="only these"
    )
    given = parser.parse_args()
    before = PAGE.read_text(encoding="utf-8")
    for tallies in run_all(cells(given.checks, given.defects), given.seeds, given.workers):
        runs = min(each.runs for each in tallies.values())
        PAGE.write_text(page(tallies, before), encoding="utf-8")
        print(f"{runs} of {given.seeds} seeds: {PAGE}", flush=True)


if __name__ == "__main__":
    main()
