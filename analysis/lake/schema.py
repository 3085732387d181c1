"""The tables of the lake: every column with its type and meaning, spelled here and nowhere else.

Columns are only ever added; rows that were written before a column was added have null there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Final

import pyarrow as pa

from harness.history.documents import Availability, Counts, Rates

CAMPAIGN: Final = "campaign"

TEXT, NUMBER, REAL, FLAG = pa.string(), pa.int64(), pa.float64(), pa.bool_()
TEXTS, TEXT_BY_TEXT, NUMBER_BY_TEXT = pa.list_(TEXT), pa.map_(TEXT, TEXT), pa.map_(TEXT, NUMBER)
INSTANT: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class Column:
    """A column: its name, its type in Arrow, and what it means."""

    name: str
    type: pa.DataType
    about: str


@dataclass(frozen=True)
class Table:
    """A table: its name, what one row is, and its columns."""

    name: str
    about: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """Its columns as Arrow has them."""
        return pa.schema([(column.name, column.type) for column in self.columns])


def rate(name: str) -> str:
    """The column of a rate."""
    return f"{name}_rate"


def seen(name: str) -> str:
    """The column of what clients saw. How many writes ended unknown is a count already."""
    return f"clients_{name}" if name in {field.name for field in fields(Counts)} else name


_RATES: Final = {
    "ack": "acknowledged / attempted; null where that is 0, as all of these",
    "loss": "lost and acknowledged / acknowledged",
    "unacknowledged_success": "unacknowledged_found / acknowledged",
    "failed_success": "failed_found / acknowledged",
    "unknown_success": "unknown_found / acknowledged",
    "unacknowledged_success_of_unacknowledged": "unacknowledged_found / not acknowledged",
}
_SEEN: Final = {
    "longest_gap_s": (REAL, "the longest time without an acknowledgement"),
    "fault_s": (REAL, "how long proven faults were in force"),
    "recovered": (FLAG, "whether clients were served again before the load ended"),
    "recovery_s": (REAL, "how long that took"),
    "refused": (NUMBER, "writes that clients saw fail"),
    "unknown": (NUMBER, "writes that clients saw end unknown"),
    "latency_p50_ms": (REAL, "median latency of acknowledged writes"),
    "latency_p99_ms": (REAL, "their 99th percentile"),
    "lateness_p99_ms": (REAL, "99th percentile of how late operations were begun"),
}


def _measured() -> Iterator[Column]:
    """Counts, rates, why writes were lost, and availability, by the fields of the documents that
    hold them."""
    for field in fields(Counts):
        yield Column(field.name, NUMBER, "counts of writes, as in its result")
    for field in fields(Rates):
        yield Column(rate(field.name), REAL, _RATES[field.name])
    yield Column("causes", NUMBER_BY_TEXT, "of how many lost writes each cause is why")
    yield Column("unexplained", NUMBER, "lost writes that nothing explains; null: not asked")
    yield Column("not_examined", NUMBER, "lost writes of runs without any log of a server")
    about = "lost writes that a node had which was up and was not elected; null: not asked"
    yield Column("survivable", NUMBER, about)
    for field in fields(Availability):
        kind, about = _SEEN[field.name]
        yield Column(seen(field.name), kind, about)


_CAMPAIGN: Final = Column(CAMPAIGN, TEXT, "the folder's name of the campaign")
_RUN: Final = Column("run_id", TEXT, "the run, which is the name of its folder")
_RUN_CELL: Final = Column("run_cell", TEXT, "the cell in a run that holds several; else null")
_WHICH: Final = (
    Column(
        "setting",
        TEXT_BY_TEXT,
        "axes and their values: `setting['acks']`; of a plan's own cells also their keys",
    ),
    Column("repetition", NUMBER, "counted from 0"),
    Column("plan_hash", TEXT, "the campaign's: its name, seed, axes, exclusions and base plan"),
    Column("seed", NUMBER, "from which every random choice was drawn"),
    Column("system", TEXT, "the system under test"),
    Column("version", TEXT, "its version, as it ran"),
    Column("simulated", FLAG, "nothing real was tested"),
    Column("started", INSTANT, "wall time at the start of the run"),
)
_JUDGED: Final = (
    Column(
        "verdict",
        TEXT,
        "valid, invalid or unknown; null where the harness failed or the result cannot be read",
    ),
    Column("reason", TEXT, "why, in a sentence"),
    Column(
        "class",
        TEXT,
        "loss, none, wrong, vacuous, unknown or harness_failure (docs/reference/statistics.md)",
    ),
    Column(
        "conclusive", FLAG, "whether it counts in shares and rates (docs/reference/statistics.md)"
    ),
    Column("eligible", FLAG, "whether it may count, decided without its losses"),
    Column("complete", FLAG, "whether its evidence is complete; null: not recorded"),
    Column("doubts", TEXTS, "what prevents the verdict valid; null: not recorded"),
    Column("counter_examples", TEXTS, "kinds of counter-examples; null: not recorded"),
)
_MODEL: Final = (
    Column("model", TEXT, "what its operations mean"),
    Column("check", TEXT, "its first check, whose primary finding makes the class `loss`"),
)
_CONDITIONS: Final = (
    Column(
        "conditions",
        TEXT,
        "SHA-256 of the cell's plan without name, about, expect and seed: runs may be counted "
        "together if it is equal; null: an earlier ackloss, or clients of the user's own",
    ),
    Column(
        "conditions_but_version",
        TEXT,
        "the same without the version, and without what the version's axis sets",
    ),
    Column("version_axis", TEXT, "the axis that sets the version; null: none, or not recorded"),
)
_LOAD: Final = (
    Column("workload", TEXT, "what clients did"),
    Column("processes", NUMBER, "logical clients, as the plan requests them"),
    Column("rate_per_s", REAL, "operations per second, as the plan requests them; 0: no limit"),
    Column("duration_s", REAL, "duration of the load, as the plan requests it"),
    Column("starved", FLAG, "whether the load generator could not keep up"),
)
_FAULTS: Final = (
    Column("faults", NUMBER, "faults of the run"),
    Column("faults_proven", NUMBER, "those that are proven"),
)

RUNS: Final = Table(
    "runs",
    "a finished run; one that cells of the campaign shared has the verdict and counts of all",
    (
        _CAMPAIGN,
        _RUN,
        Column("cell", TEXT, "the cell of the campaign; null where several shared the run"),
        *_WHICH,
        *_JUDGED,
        Column("cells", NUMBER, "its rows in the table `cells`"),
        *_measured(),
        *_LOAD,
        *_FAULTS,
        Column("seconds", REAL, "what it took, judged"),
        *(
            Column(f"{phase}_s", REAL, about)
            for phase, about in {
                "cluster": "time to start the cluster",
                "run": "time of load and faults",
                "read": "time of the final read",
            }.items()
        ),
        Column("worker", NUMBER, "the worker that executed it"),
        Column("cluster", TEXT, "the cluster that served it; several runs may share one"),
        Column("versions", TEXT_BY_TEXT, "versions of ackloss, the system and the clients"),
        Column("campaign_name", TEXT, "the name in the campaign file"),
        Column("digest", TEXT, "SHA-256 of what the campaign holds of its result"),
        Column("with_ops", FLAG, "whether the table `ops` has its operations"),
    ),
)
CELLS: Final = Table(
    "cells",
    "a judged cell: the unit of statistics. A run without cells has one",
    (
        _CAMPAIGN,
        _RUN,
        _RUN_CELL,
        Column("cell", TEXT, "the cell of the campaign, in one line"),
        *_WHICH,
        Column("plan_digest", TEXT, "SHA-256 of the cell's plan without its seed"),
        *_CONDITIONS,
        Column("shared", TEXT, "equal for the cells of one shared run; null: it ran alone"),
        *_JUDGED,
        *_MODEL,
        *_measured(),
        *_LOAD,
        *_FAULTS,
        Column("lost_from_s", REAL, "begin of the first lost write, from the start of the run"),
        Column("lost_until_s", REAL, "acknowledgement of the last lost write"),
        Column(
            "counted",
            NUMBER_BY_TEXT,
            "what its first check counts, in its own words: `counted['skipped']`",
        ),
    ),
)
FAULTS: Final = Table(
    "faults",
    "a fault, for each cell that it was judged with",
    (
        _CAMPAIGN,
        _RUN,
        _RUN_CELL,
        Column("fault", TEXT, "its id in the plan"),
        Column("nemesis", TEXT, "what made it"),
        Column("nodes", TEXTS, "the nodes that it was to meet"),
        Column(
            "begun_s",
            REAL,
            "when its first act was begun, before `from_s` by as long as its acts took; null: it "
            "was skipped or had no act, or not recorded",
        ),
        Column("from_s", REAL, "begin, from the start of the run; null: it never began"),
        Column("to_s", REAL, "end, likewise"),
        Column("met", FLAG, "whether its condition was met; null: it has none"),
        Column("proven", FLAG, "whether it is proven to have met the system"),
        Column("claimed", FLAG, "caused by an operator, who reports it"),
        Column("control", FLAG, "passed everything on, and proves nothing"),
        Column("evidence", TEXTS, "what proves it"),
        Column("touched", NUMBER, "what it met, counted by its lever"),
        Column("ops_begun", NUMBER, "operations begun while it was in force"),
        Column("ops_acknowledged", NUMBER, "operations acknowledged meanwhile"),
        Column(
            "leader_met", FLAG, "whether it met a leader; null: no leader is known, or not recorded"
        ),
    ),
)
FINDINGS: Final = Table(
    "findings",
    "a thing that a checker has found",
    (
        _CAMPAIGN,
        _RUN,
        _RUN_CELL,
        Column("checker", TEXT, "which checker"),
        Column("kind", TEXT, "what it is: lost, duplicate, unexpected ..."),
        Column("key", TEXT, "the key of the operation"),
        Column("value", NUMBER, "its value"),
        Column("process", NUMBER, "the logical client"),
        Column("partition", NUMBER, "where the system put it"),
        Column("offset", NUMBER, "likewise"),
        Column("node", TEXT, "the node that it was found on"),
        Column("intended_s", REAL, "when it was due, from the start of the run"),
        Column("invoke_s", REAL, "when it was begun"),
        Column("complete_s", REAL, "when it was answered"),
        Column("error", TEXT, "the error code of the answer"),
        Column("fault", TEXT, "the faults in force then, joined by commas"),
        Column("found_partition", NUMBER, "where it was read"),
        Column("found_offset", NUMBER, "likewise"),
        Column(
            "more",
            TEXT,
            "further columns of the checker, and those of another type than here, as a JSON "
            "object; null: none",
        ),
    ),
)
OBSERVATIONS: Final = Table(
    "observations",
    "what a node answered when it was queried for who leads",
    (
        _CAMPAIGN,
        _RUN,
        _RUN_CELL,
        Column("time_s", REAL, "when, from the start of the run"),
        Column("answered_by", TEXT, "the node"),
        Column("partition", NUMBER, "of which part of the system"),
        Column("leader", TEXT, "who leads it"),
        Column("leader_epoch", NUMBER, "since which election"),
        Column("members", TEXTS, "which replicas are in sync"),
        Column("controller", TEXT, "who leads the cluster"),
        Column("controller_epoch", NUMBER, "since which election"),
    ),
)
OPS: Final = Table(
    "ops",
    "an invocation or a completion, or what the nemesis did (process -1); on request",
    (
        _CAMPAIGN,
        _RUN,
        _RUN_CELL,
        Column("index", NUMBER, "place in the history"),
        Column("process", NUMBER, "the logical client"),
        Column("type", TEXT, "invoke, ok, fail or info"),
        Column("f", TEXT, "the function"),
        Column("key", TEXT, "the key"),
        Column("value", NUMBER, "the value"),
        Column("expected", NUMBER, "what a comparison expects"),
        Column("result", NUMBER, "what was read"),
        Column("elements", pa.list_(NUMBER), "the elements that were read"),
        Column("partition", NUMBER, "where the system put it"),
        Column("offset", NUMBER, "likewise"),
        Column("node", TEXT, "the node that answered"),
        Column("error", TEXT, "the error code"),
        Column("intended_s", REAL, "when it was due, from the start of the run"),
        Column("time_s", REAL, "when it happened"),
    ),
)

TABLES: Final = {table.name: table for table in (RUNS, CELLS, FAULTS, FINDINGS, OBSERVATIONS, OPS)}
"""What runs have, by name."""
CAMPAIGNS: Final = Table(
    "campaigns",
    "a campaign",
    (
        _CAMPAIGN,
        Column("name", TEXT, "the name in the campaign file"),
        Column("plan_hash", TEXT, "of its name, seed, axes, exclusions and base plan"),
        Column("simulated", FLAG, "nothing real was tested"),
        Column("started", TEXT, "when it began, as its journal has it; null: not known"),
        Column("ended", TEXT, "when it ended; null: it had not when it was added"),
        Column("workers", NUMBER, "how many clusters it kept"),
    ),
)
