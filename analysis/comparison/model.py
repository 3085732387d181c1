"""The comparison of campaigns as a document: the JSON of `campaign compare`, typed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from analysis.comparison.differences import Difference
from analysis.comparison.sampled import CampaignSummary
from analysis.statistics.cells import LossyShare, MedianAndMax
from analysis.statistics.comparisons import Tested
from analysis.statistics.equivalence import Equivalence
from analysis.wording import unit
from harness.protocols import PrimaryFinding

SCHEMA_VERSION: Final = 1
REGRESSION, IMPROVEMENT = "regression", "improvement"
DOUBTFUL, NOT_SHOWN, NOT_JUDGED = "doubtful", "no difference shown", "not judged"


def unit_of(campaigns: Iterable[CampaignSummary]) -> str:
    """What is counted in these campaigns: `run`, or `result` where cells of one shared runs."""
    units = {unit(each.runs, each.executions) for each in campaigns}
    return "result" if "result" in units else "run"


@dataclass(frozen=True, kw_only=True)
class Side:
    """A cell of one campaign. `judged` is the earlier name of `conclusive`; `loss_rate` is over the
    conclusive runs."""

    runs: int
    judged: int
    conclusive: int
    lossy: int
    inconclusive: int
    inconclusive_lossy: int
    verdicts: Mapping[str, int]
    lossy_share: LossyShare
    loss_rate: MedianAndMax


@dataclass(frozen=True, kw_only=True)
class TrendPoint(Side):
    """A cell of the campaign at index `campaign` of `campaigns[]`."""

    campaign: int


@dataclass(frozen=True, kw_only=True)
class Trend:
    """One cell over all campaigns that have it."""

    name: str
    campaigns: Sequence[TrendPoint]


@dataclass(frozen=True, kw_only=True)
class Equivalent(Equivalence):
    """Whether the shares are the same within a margin, with `p_adjusted` for all cells together.
    `doubtful`: the runs that do not count could refute it."""

    p_adjusted: float
    doubtful: bool


@dataclass(frozen=True, kw_only=True)
class ComparedCell(Tested):
    """One cell of both campaigns, tested: `old` in the baseline, `new` in the current one.

    `in_words` is the result of the test as a sentence. `p_least` is the smallest p-value that so
    many runs can have. `new_classes` and `vanished_classes` are the verdict classes that only one
    campaign has. `flaky` names the campaigns whose own runs disagree.
    """

    name: str
    key: Mapping[str, object]
    status: str
    old: Side
    new: Side
    p_unknown_against: float | None
    equivalence: Equivalent | None
    p_least: float | None
    new_classes: Sequence[str]
    vanished_classes: Sequence[str]
    flaky: Sequence[str]
    in_words: str = ""


@dataclass(frozen=True, kw_only=True)
class CampaignComparison:
    """What `campaign compare` reports; `finding` says what makes a run lossy."""

    campaigns: Sequence[CampaignSummary]
    baseline: str
    current: str
    differs: Sequence[Difference]
    cells: Sequence[ComparedCell]
    only_old: Sequence[str]
    only_new: Sequence[str]
    trend: Sequence[Trend]
    finding: PrimaryFinding
    conclusion: Sequence[str] = ()

    @property
    def simulated(self) -> bool:
        """Whether nothing real was tested: in all campaigns, or in none."""
        return any(campaign.simulated for campaign in self.campaigns)

    @property
    def unit(self) -> str:
        """What is counted: `run`, or `result` where cells of a campaign shared runs."""
        return unit_of(self.campaigns)

    @property
    def regressions(self) -> int:
        return sum(cell.status == REGRESSION for cell in self.cells)

    @property
    def improvements(self) -> int:
        return sum(cell.status == IMPROVEMENT for cell in self.cells)

    def json(self) -> Mapping[str, Any]:
        """The JSON document. `nights`, `night`, `old` and `new` are earlier names of `campaigns`,
        `campaign`, `baseline` and `current`."""
        document = asdict(self)
        for line in document["trend"]:
            line["nights"] = [{"night": each["campaign"], **each} for each in line["campaigns"]]
        return {
            "schema": SCHEMA_VERSION,
            **document,
            "simulated": self.simulated,
            "nights": document["campaigns"],
            "old": self.baseline,
            "new": self.current,
            "regressions": self.regressions,
            "improvements": self.improvements,
        }
