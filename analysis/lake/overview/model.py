"""The overview as a document: the JSON of `lake report`, typed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from analysis.comparison.model import Side, Trend
from analysis.comparison.sampled import CampaignSummary
from analysis.lake.overview.chosen import Copy
from analysis.statistics.contrasts import ALPHA
from harness.protocols import PrimaryFinding

SCHEMA_VERSION: Final = 1


@dataclass(frozen=True, kw_only=True)
class PoolPart:
    """The runs of one campaign in a pool."""

    campaign: str
    conclusive: int
    lossy: int


@dataclass(frozen=True, kw_only=True)
class Pool(Side):
    """Runs of one plan and one version that are counted together.

    `plan`: the digest of the plan, `None` where it is not known and nothing else is counted here.
    `ran` and `client`: the versions of the system and of its clients, as they ran. `in_run`: the
    cells that each run held. `repeated_seeds`: conclusive runs whose seed another one has.
    `p_campaigns`: the p-value of "its campaigns lose equally often", corrected over all pools;
    `None` if fewer than two have a conclusive run.
    """

    plan: str | None
    ran: str | None
    client: str | None
    in_run: int
    campaigns: Sequence[PoolPart]
    repeated_seeds: int
    p_campaigns: float | None = None

    @property
    def differs(self) -> bool:
        """Whether its campaigns differ beyond chance."""
        return self.p_campaigns is not None and self.p_campaigns <= ALPHA


@dataclass(frozen=True, kw_only=True)
class AtVersion:
    """A setting in one version: several pools where its runs may not be counted together."""

    version: str
    pools: Sequence[Pool]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting apart from the version, in each version in which it ran."""

    name: str
    versions: Sequence[AtVersion]

    def at(self, version: str) -> AtVersion | None:
        """The setting in this version; `None`: it never ran there."""
        return next((each for each in self.versions if each.version == version), None)


@dataclass(frozen=True, kw_only=True)
class Group:
    """Campaigns that have cells in common, with the rates of all their settings.

    `versions` are in their order. `campaign` in a point of `trend` is a place in `campaigns`.
    `unpooled`: the campaigns whose plans are not known well enough to count them with others.
    """

    campaigns: Sequence[str]
    finding: PrimaryFinding
    versions: Sequence[str]
    settings: Sequence[Setting]
    trend: Sequence[Trend]
    unpooled: Sequence[str]

    @property
    def unit(self) -> str:
        """What is counted: `run`, or `result` where runs held several cells."""
        return "result" if any(pool.in_run > 1 for pool in self.pools) else "run"

    @property
    def pools(self) -> list[Pool]:
        """All pools of its settings."""
        return [pool for row in self.settings for at in row.versions for pool in at.pools]


@dataclass(frozen=True, kw_only=True)
class Overview:
    """What the campaigns of a lake say together. `copies` are left out everywhere."""

    lake: str
    simulated: bool
    campaigns: Sequence[CampaignSummary]
    copies: Sequence[Copy]
    groups: Sequence[Group]
    notes: Sequence[str] = ()

    @property
    def unit(self) -> str:
        """What is counted: `run`, or `result` where runs of any group held several cells."""
        return "result" if any(group.unit == "result" for group in self.groups) else "run"

    def json(self) -> Mapping[str, Any]:
        """The JSON document."""
        return {"schema": SCHEMA_VERSION, **asdict(self)}
