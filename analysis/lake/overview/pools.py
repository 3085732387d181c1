"""Runs of several campaigns counted together, and the rates of each setting across versions.

Runs are one pool only if the plan, the version of the system and that of its clients were the same,
and if as many cells shared each run, because cells of one run share the machine. Whether campaigns
lose equally often does not decide it: a rule that looks at the outcome would choose the result. It
is tested, and reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from analysis.comparison.trend import side_of
from analysis.lake.outcomes import Key
from analysis.lake.overview.model import AtVersion, Group, Pool, PoolPart, Setting
from analysis.lake.overview.planned import PlannedCell, natural
from analysis.statistics.contrasts import adjusted, exact_test
from analysis.statistics.eligibility import FailedRun, Outcome, is_conclusive
from analysis.statistics.samples import sample_of
from analysis.statistics.shares import Share
from harness.campaigns.plan import cell_name
from harness.history.documents import RunResult

UNKNOWN: Final = "version not recorded"
"""Of a system without versions, and of cells all of whose runs failed before it was known."""
_CLIENT: Final = "client"

Versions = tuple[str | None, str | None]
"""The versions of the system and of its clients, as they ran."""


@dataclass(frozen=True)
class Part:
    """The runs of a cell of one campaign with the same versions and number of cells."""

    cell: PlannedCell
    versions: Versions
    in_run: int
    outcomes: tuple[Outcome, ...]

    @property
    def label(self) -> str:
        """The column in which it stands."""
        return self.cell.version_label or self.versions[0] or UNKNOWN

    @property
    def pool(self) -> tuple[object, ...]:
        """Equal for parts that are counted together."""
        alone = self.cell.campaign.campaign.id
        return (self.cell.poolable or (alone,), self.versions, self.in_run)


def settings_of(cells: Iterable[PlannedCell]) -> list[Setting]:
    """The rates of each setting apart from the version, in their natural order. Two settings with
    one name and different plans are two."""
    rows: dict[tuple[str, Key], list[Part]] = {}
    for cell in cells:
        rows.setdefault(cell.row, []).extend(_parts(cell))
    names = {row: cell_name(parts[0].cell.other_axes) for row, parts in rows.items()}
    twice = {name for name, count in Counter(names.values()).items() if count > 1}
    made = [
        Setting(
            name=distinct(names[row], row[0]) if names[row] in twice else names[row],
            versions=_at_versions(parts),
        )
        for row, parts in rows.items()
    ]
    return sorted(made, key=lambda each: natural(each.name))


def distinct(name: str, digest: str) -> str:
    """The name of one of several plans that have the same name."""
    return f"{name} (plan {digest.removeprefix('campaign ')[:8]})"


def tested(groups: Sequence[Group]) -> list[Group]:
    """The groups with the p-values of their pools, corrected over all of them."""
    pools = [pool for group in groups for pool in group.pools]
    corrected = iter(adjusted([_p_equal(pool.campaigns) for pool in pools]))

    def with_p(pool: Pool) -> Pool:
        return replace(pool, p_campaigns=next(corrected))

    return [
        replace(
            group,
            settings=[
                replace(
                    row,
                    versions=[
                        replace(at, pools=[with_p(pool) for pool in at.pools])
                        for at in row.versions
                    ],
                )
                for row in group.settings
            ],
        )
        for group in groups
    ]


def _parts(cell: PlannedCell) -> list[Part]:
    """The runs of a cell by their versions and by how many cells they held. A run that failed
    before its versions were known has those of the others, where these agree."""
    by_run = cell.campaign.versions_of_runs
    runs = [
        ((version, by_run.get(run_id, {}).get(_CLIENT)), in_run, outcome)
        for outcome, run_id, version, in_run in zip(
            *(cell.cell.outcomes, cell.cell.run_ids, cell.cell.versions, cell.cell.in_run),
            strict=True,
        )
    ]
    known = {versions for versions, _, outcome in runs if not isinstance(outcome, FailedRun)}
    found: dict[tuple[Versions, int], list[Outcome]] = {}
    for versions, in_run, outcome in runs:
        ran = _completed(versions, known) if isinstance(outcome, FailedRun) else versions
        found.setdefault((ran, in_run), []).append(outcome)
    return [Part(cell, *which, tuple(outcomes)) for which, outcomes in found.items()]


def _completed(versions: Versions, known: Collection[Versions]) -> Versions:
    """The versions of a failed run: those of the other runs that fit, if these agree."""
    fitting = [each for each in known if versions[0] in (None, each[0])]
    return fitting[0] if len(fitting) == 1 else versions


def _at_versions(parts: Iterable[Part]) -> list[AtVersion]:
    by_label: dict[str, dict[tuple[object, ...], list[Part]]] = {}
    for part in parts:
        by_label.setdefault(part.label, {}).setdefault(part.pool, []).append(part)
    return [
        AtVersion(version=label, pools=[_pool(each) for each in by_label[label].values()])
        for label in sorted(by_label, key=natural)
    ]


def _pool(parts: Sequence[Part]) -> Pool:
    first, counts = parts[0], [sample_of(part.outcomes).lossy for part in parts]
    outcomes = list(chain.from_iterable(part.outcomes for part in parts))
    return Pool(
        **vars(side_of(sample_of(outcomes))),
        plan=first.cell.poolable,
        ran=first.versions[0],
        client=first.versions[1],
        in_run=first.in_run,
        campaigns=[
            PoolPart(
                campaign=part.cell.campaign.campaign.id, conclusive=share.whole, lossy=share.part
            )
            for part, share in zip(parts, counts, strict=True)
        ],
        repeated_seeds=_repeated_seeds(outcomes),
    )


def _repeated_seeds(outcomes: Iterable[Outcome]) -> int:
    """How many conclusive runs made the same random choices as an earlier one."""
    seeds = [
        each.seed
        for each in outcomes
        if isinstance(each, RunResult) and is_conclusive(each) and each.seed is not None
    ]
    return len(seeds) - len(set(seeds))


def _p_equal(parts: Sequence[PoolPart]) -> float | None:
    """The p-value of "all campaigns lose equally often": each is tested against all others, and
    the smallest p-value is corrected for their number."""
    shares = [Share(part.lossy, part.conclusive) for part in parts if part.conclusive]
    if len(shares) < 2:
        return None
    whole = sum(share.whole for share in shares)
    part = sum(share.part for share in shares)
    tests = [exact_test(share, Share(part - share.part, whole - share.whole)).p for share in shares]
    least = min(p for p in tests if p is not None)
    return least if len(shares) == 2 else min(1.0, least * len(shares))
