"""The campaigns of a lake, without their folders, with the samples that statistics are made of, and
what decides whether runs of two campaigns may be counted together.

A row of `cells` holds everything that `analysis.statistics` reads of a result. So a campaign whose
folder is gone has the same shares, rates and intervals as on the day when it was added.

`plan_hash` of a campaign includes its name and seed, so two campaigns that ran the same plan in two
sessions differ in it. `Conditions` are digests of a cell's plan alone:

    conditions              everything that the plan decides about a run: equal for two cells that
                            were run in the same way, whatever their campaigns are called
    conditions_but_version  the same without the version: equal for the cells of one row of a table
                            whose columns are versions

A plan does not say on which machine it was run, so neither do they.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Final

import orjson

from analysis.campaign import sorted_versions
from analysis.comparison import DESCRIPTIVE, CampaignSummary, Samples
from analysis.lake import delta
from analysis.lake.delta import AGAIN, CELLS, RUNS, LakeCampaign, StoredLake
from analysis.statistics.cells import UNKNOWN, FailedRun, Outcome, Sample, sample_of
from harness.campaigns.folder import CampaignDir
from harness.campaigns.plan import Axis, Campaign, Cell, Document, with_choices
from harness.errors import HistoryError
from harness.history.documents import Availability, CheckRecord, Counts, Rates, RunResult
from harness.plan.parsing import dotted_parts
from harness.protocols.systems import EXEC

_WITHOUT_EFFECT: Final = DESCRIPTIVE | {"seed"}
"""The seed is a draw of one run, and every run of a cell has another."""
_TARGET: Final = "target"
_NAMES_VERSION: Final = frozenset({"version", "image"})


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The digests of a cell's plan, and the axis that sets its version; `None`: none does.

    `conditions` is `None` where the clients are a program of the user's, which no plan names.
    """

    conditions: str | None
    conditions_but_version: str
    version_axis: str | None


def conditions_of(campaign: Campaign, cell: Cell) -> Conditions:
    """The conditions of a cell of a campaign."""
    axes = campaign.plan.axes
    axis = next((name for name in reversed(axes) if _sets_version(axes[name])), None)
    choices = {
        name: axes[name].by_label()[label] for name, label in cell.key.items() if name != axis
    }
    own_client = cell.resolved.plan.workload.client == EXEC
    return Conditions(
        conditions=None if own_client else digest(_of_run(cell.document)),
        conditions_but_version=digest(
            _without_version(_of_run(with_choices(campaign.base, choices)))
        ),
        version_axis=axis,
    )


def digest(document: object) -> str:
    """SHA-256 of JSON data, equal for equal data."""
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _sets_version(axis: Axis) -> bool:
    """Whether each of its choices says which version is tested."""
    return all(
        any(_names_version(dotted_parts(key), value) for key, value in choice.set.items())
        for choice in axis.by_label().values()
    )


def _names_version(parts: list[str], value: object) -> bool:
    if parts == [_TARGET]:
        return isinstance(value, Mapping) and not _NAMES_VERSION.isdisjoint(value)
    return len(parts) == 2 and parts[0] == _TARGET and parts[1] in _NAMES_VERSION


def _of_run(document: Mapping[str, Any]) -> Document:
    return {name: value for name, value in document.items() if name not in _WITHOUT_EFFECT}


def _without_version(document: Document) -> Document:
    target = document.get(_TARGET)
    if not isinstance(target, Mapping):
        return document
    rest = {name: value for name, value in target.items() if name not in _NAMES_VERSION}
    others = {name: value for name, value in document.items() if name != _TARGET}
    return {**others, _TARGET: rest} if rest else others


Row = Mapping[str, Any]
Key = frozenset[tuple[str, str]]
"""A cell's setting, whatever the order of its axes."""

_COLUMNS: Final = (
    *("run_id", "run_cell", "cell", "setting", "version", "shared", "verdict", "class"),
    *("reason", "eligible", "complete", "doubts", "counter_examples"),
    *("model", "check", "seed", "simulated"),
    *("counted", "plan_digest", *(field.name for field in fields(Conditions))),
    *(field.name for field in fields(Counts)),
    *(delta.rate(field.name) for field in fields(Rates)),
    *(delta.seen(field.name) for field in fields(Availability)),
)


@dataclass(frozen=True)
class StoredCell:
    """A cell of a campaign, and of each of its runs: the outcome, the run id, the version of the
    system (`None`: the run failed before it was known), and how many cells the run held (`in_run`;
    1: it ran alone).
    """

    campaign: str
    name: str
    key: Mapping[str, str]
    outcomes: tuple[Outcome, ...]
    run_ids: tuple[str, ...]
    versions: tuple[str | None, ...]
    plan_digest: str
    conditions: Conditions
    in_run: tuple[int, ...]

    @cached_property
    def sample(self) -> Sample:
        """What statistics read of its runs."""
        return sample_of(self.outcomes)

    @property
    def plan(self) -> str:
        """Equal for cells of one plan, as far as it is known."""
        return self.conditions.conditions or self.plan_digest

    @property
    def series(self) -> tuple[str, Key]:
        """Equal for cells of one line of a trend: the plan, and the setting."""
        return self.plan, frozenset(self.key.items())

    @property
    def row(self) -> tuple[str, Key]:
        """Equal for cells of one row of rates: plan and setting, both apart from the version."""
        return self.conditions.conditions_but_version, frozenset(self.other_axes.items())

    @property
    def other_axes(self) -> dict[str, str]:
        """Its setting apart from the version."""
        of_version = self.conditions.version_axis
        return {axis: label for axis, label in self.key.items() if axis != of_version}


def cells_of(lake: StoredLake, campaign: str) -> dict[Key, StoredCell]:
    """The cells of a campaign that has finished runs. Raises HistoryError."""
    chosen = lake.rows(CELLS, _COLUMNS, campaign=campaign)
    rows = sorted(chosen.to_pylist(), key=lambda row: str(row["run_id"]))
    _refuse_twice(lake, rows)
    in_run = Counter(_run_of(row) for row in rows)
    by_key: dict[Key, list[Row]] = {}
    for row in rows:
        by_key.setdefault(frozenset(row["setting"]), []).append(row)
    return {key: _cell(campaign, rows, in_run) for key, rows in by_key.items()}


def _cell(campaign: str, rows: Sequence[Row], in_run: Mapping[str, int]) -> StoredCell:
    # A cell that broke off has no row, and yet it was in the run.
    most = max(in_run[_run_of(row)] for row in rows)
    return StoredCell(
        campaign=campaign,
        name=rows[0]["cell"],
        key=dict(rows[0]["setting"]),
        outcomes=tuple(outcome_of(row) for row in rows),
        run_ids=tuple(row["run_id"] for row in rows),
        versions=tuple(row["version"] for row in rows),
        plan_digest=rows[0]["plan_digest"],
        conditions=Conditions(**{field.name: rows[0][field.name] for field in fields(Conditions)}),
        in_run=tuple(most if row["shared"] or row["run_cell"] else 1 for row in rows),
    )


def _run_of(row: Row) -> str:
    """Equal for the cells of one run."""
    return str(row["shared"] or row["run_id"])


def _refuse_twice(lake: StoredLake, rows: Iterable[Row]) -> None:
    """A run counts once: `build` writes none twice, but a lake may come from a stranger."""
    seen = Counter((row["run_id"], row["run_cell"]) for row in rows)
    if twice := next((run_id for (run_id, _), times in seen.items() if times > 1), None):
        raise HistoryError(f"has the run {twice} twice", file=lake.shown, hint=AGAIN)


def outcome_of(row: Row) -> Outcome:
    """How a judged cell ended, from its row."""
    if row["verdict"] is None:
        return FailedRun(run_id=row["run_id"], error=row["reason"], unread=row["class"] == UNKNOWN)
    return RunResult(
        verdict=row["verdict"],
        counts=Counts(**{field.name: row[field.name] or 0 for field in fields(Counts)}),
        run_id=row["run_id"],
        seed=row["seed"],
        model=row["model"],
        simulated=row["simulated"],
        reason=row["reason"],
        checks=(
            CheckRecord(
                name=row["check"], verdict=row["verdict"], counts=dict(row["counted"] or ())
            ),
        ),
        counter_examples=_tuple(row["counter_examples"]),
        doubts=_tuple(row["doubts"]),
        eligible=row["eligible"],
        complete=row["complete"],
        rates=Rates(**{f.name: row[delta.rate(f.name)] for f in fields(Rates)}),
        availability=Availability(
            **{f.name: row[delta.seen(f.name)] for f in fields(Availability)}
        ),
    )


def _tuple(texts: list[str] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(texts)


Versions = Mapping[str, str]
"""The versions of ackloss, the system and the clients in one run."""


@dataclass(frozen=True)
class StoredCampaign:
    """A campaign as the lake has it."""

    lake: StoredLake
    campaign: LakeCampaign

    @cached_property
    def cells(self) -> Mapping[Key, StoredCell]:
        """Its cells that have finished runs."""
        return cells_of(self.lake, self.campaign.id)

    @property
    def named(self) -> Samples[Key]:
        """Its cells, as a trend shows them."""
        return {key: (cell.name, cell.sample) for key, cell in self.cells.items()}

    @cached_property
    def versions_of_runs(self) -> Mapping[str, Versions]:
        """The versions of each run, by its id."""
        rows = self.lake.rows(RUNS, ["run_id", "versions"], campaign=self.campaign.id)
        return {row["run_id"]: dict(row["versions"] or ()) for row in rows.to_pylist()}

    def summary(self) -> CampaignSummary:
        """The campaign as the document names it; its folder is the lake's."""
        return CampaignSummary(
            **vars(self.campaign),
            folder=self.lake.shown,
            runs=sum(cell.sample.runs for cell in self.cells.values()),
            executions=len(self.versions_of_runs),
            versions=sorted_versions(
                (name, [version])
                for versions in self.versions_of_runs.values()
                for name, version in versions.items()
            ),
        )


def in_order(campaigns: Sequence[LakeCampaign]) -> list[LakeCampaign]:
    """The campaigns in the order of their starts."""
    return sorted(campaigns, key=lambda each: each.started or "")


def earlier_than(lake: StoredLake, folders: Sequence[CampaignDir]) -> list[StoredCampaign]:
    """The campaigns of the lake that began before all of these folders' did, the oldest first. One
    whose start is not known may be one of these, and is left out. Raises HistoryError where some
    are simulated and others are not."""
    begun = [each.progress().started for each in folders]
    first = min((at for at in begun if at is not None), default="")
    older = [each for each in lake.campaigns if each.started is not None and each.started < first]
    if older and lake.simulated != folders[0].campaign().simulated:
        raise HistoryError(
            "simulated and real campaigns are not compared",
            file=lake.shown,
            hint="name the lake that these campaigns are in",
        )
    return [StoredCampaign(lake, each) for each in in_order(older)]
