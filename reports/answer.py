"""What a campaign answers about the one choice that its policy names, such as the user's settings.

Each row is a fault: what the choice lost under it, what it cost, and the same with the reference,
which is the last choice of the axis. Choices between the two are ways from one to the other: the
smallest that lost nothing is what to change. Counts are sums over runs with a verdict, and gaps the
longest of these: nothing here is a rate, as so few runs give none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

from analysis.campaign import Finished, RunRow, by_cell_of, tallies_of
from analysis.statistics.intervals import Share, share_estimate
from analysis.wording import capitalised, counted
from harness.campaigns.plan import (
    BROKEN,
    INCONCLUSIVE,
    Campaign,
    Choice,
    cell_name,
    changes_of,
    exit_code,
)
from harness.history.documents import CONCLUSIVE
from harness.plan.model import OwnFile, Yours
from reports.formatting import number, share

T = TypeVar("T")
_VERDICTS: Final = {BROKEN: "invalid", INCONCLUSIVE: "unknown"}
_RARE: Final = 0.1
"""The share of runs that enough repetitions would show."""


@dataclass(frozen=True, kw_only=True)
class Tested:
    """A choice under one fault. `runs`: those with a verdict; `page`: the run with most losses;
    `why`: the reason why it is not known."""

    choice: str
    verdict: str
    runs: int
    invalid: int
    lost: int
    acknowledged: int
    duplicates: int
    longest_gap_s: float | None
    page: str | None
    why: str | None

    @property
    def in_short(self) -> str:
        if self.verdict == "unknown":
            return "not known"
        return f"{number(self.lost)} of {number(self.acknowledged)}"

    @property
    def lost_in_short(self) -> str:
        return self.in_short if self.verdict == "unknown" else f"lost {self.in_short}"


@dataclass(frozen=True, kw_only=True)
class UnderFault:
    """One row. `counts`: whether the policy names it; `tested` begins with the choice, and ends
    with the reference."""

    about: str
    counts: bool
    tested: Sequence[Tested]

    @property
    def shown(self) -> Sequence[Tested]:
        """Those two."""
        return _ends(self.tested)


@dataclass(frozen=True, kw_only=True)
class Change:
    """A setting in which the choice and the reference differ; `None`: it is not set."""

    setting: str
    value: str | None
    reference: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The field `answer` of campaign.json."""

    verdict: str
    headline: str
    sentences: Sequence[str]
    choices: Sequence[str]
    faults: Sequence[UnderFault]
    changes: Sequence[Change]
    files: Sequence[OwnFile]

    def json(self) -> dict[str, Any]:
        return {**vars(self), "files": [file.model_dump() for file in self.files]}

    @property
    def pages(self) -> list[str]:
        return [each.page for fault in self.faults for each in fault.shown if each.page]


def answer(
    campaign: Campaign, results: Sequence[Finished], rows: Sequence[RunRow]
) -> Answer | None:
    """The answer; `None` for a campaign whose policy does not name one choice of an axis."""
    policy = campaign.plan.policy
    axis = next((axis for axis, of in policy.cells.items() if not isinstance(of, list)), None)
    if axis is None:
        return None
    asked = _Asked(campaign, axis, rows)
    tallies = tallies_of(campaign, by_cell_of(campaign, results))
    headline, *sentences = asked.sentences()
    return Answer(
        verdict=_VERDICTS.get(exit_code(policy, tallies), "valid"),
        headline=headline,
        sentences=sentences,
        choices=[asked.about(label) for label in _ends(asked.labels)],
        faults=asked.faults,
        changes=list(asked.changes()),
        files=Yours.model_validate(campaign.base.get("yours", {})).files,
    )


def _ends(these: Sequence[T]) -> Sequence[T]:
    """The first and the last, or the only one."""
    return these if len(these) < 2 else (these[0], these[-1])


@dataclass(frozen=True)
class _Asked:
    campaign: Campaign
    axis: str
    rows: Sequence[RunRow]

    @cached_property
    def choices(self) -> Mapping[str, Choice]:
        return self.campaign.plan.axes[self.axis].by_label()

    @cached_property
    def labels(self) -> list[str]:
        """The choices that are run, the one that the policy names first."""
        subject = str(self.campaign.plan.policy.cells[self.axis])
        run = {cell.key[self.axis] for cell in self.campaign.cells}
        return [subject, *(label for label in self.choices if label in run - {subject})]

    def about(self, label: str) -> str:
        return self.choices[label].about or label

    @cached_property
    def faults(self) -> list[UnderFault]:
        of_policy = {cell.name for cell in self.campaign.of_policy}
        names, axes = {cell.name for cell in self.campaign.cells}, self.campaign.plan.axes
        found = []
        for cell in self.campaign.cells:
            if cell.key[self.axis] == self.labels[0]:
                others = {axis: of for axis, of in cell.key.items() if axis != self.axis}
                abouts = [axes[axis].by_label()[of].about for axis, of in others.items()]
                named = {name: cell_name({**cell.key, self.axis: name}) for name in self.labels}
                found.append(
                    UnderFault(
                        about=" and ".join(filter(None, abouts)) or cell_name(others),
                        counts=cell.name in of_policy,
                        tested=[self._tested(of, named[of]) for of in named if named[of] in names],
                    )
                )
        return found

    def _tested(self, label: str, cell: str) -> Tested:
        every = [row for row in self.rows if row["cell"] == cell]
        runs = [row for row in every if row["verdict"] in CONCLUSIVE]
        invalid = sum(row["verdict"] == "invalid" for row in runs)
        known = invalid or any(row["conclusive"] for row in runs)
        worst = max(runs, key=lambda row: row["lost"] or 0, default=None)
        return Tested(
            choice=label,
            verdict="invalid" if invalid else "valid" if known else "unknown",
            runs=len(runs),
            invalid=invalid,
            lost=sum(row["lost"] or 0 for row in runs),
            acknowledged=sum(row["acknowledged"] or 0 for row in runs),
            duplicates=sum(row["duplicates"] or 0 for row in runs),
            longest_gap_s=_longest(row["longest_gap_s"] for row in runs),
            page=worst["run_id"] if worst else None,
            why=None if known else next((row["reason"] for row in every), None),
        )

    def sentences(self) -> Iterator[str]:
        """The headline, what else was lost, the cost, what to change, and how certain that is."""
        columns: dict[str, list[tuple[str, Tested]]] = {label: [] for label in self.labels}
        for fault in self.faults:
            for each in fault.tested if fault.counts else ():
                columns[each.choice].append((fault.about, each))
        subject, *between = self.labels
        shown = {self.about(label): columns[label] for label in _ends(self.labels)}
        lossy = sum(each.lost > 0 for _, each in columns[subject])
        found = [f"{capitalised(about)} {_found(column)}" for about, column in shown.items()]
        if lossy > 1:
            under = f"{lossy} of {counted(len(columns[subject]), 'fault')}"
            yield f"{capitalised(self.about(subject))} lost acknowledged writes under {under}"
            yield f"{found[0]}."
        else:
            yield found[0]
        yield from (f"{sentence}." for sentence in found[1:])
        known = [
            f"{gap_s:.1f} s with {about}"
            for about, column in shown.items()
            if (gap_s := _longest(each.longest_gap_s for _, each in column)) is not None
        ]
        if known:
            yield f"Longest time without an acknowledgement: {', '.join(known)}."
        if any(each.verdict == "invalid" for _, each in columns[subject]) and between:
            of = {label: changes_of(self.choices[label], self.campaign.base) for label in between}
            clean = [
                label
                for label in between
                if all(each.verdict == "valid" for _, each in columns[label])
            ]
            if clean and clean[0] != between[-1]:
                fewest = min(len(of[label]) for label in clean)
                ways = [
                    " and ".join(f"{setting}={to}" for setting, (_, to) in of[label].items())
                    for label in clean
                    if len(of[label]) == fewest
                ]
                yield f"The smallest change that lost nothing: {'; or '.join(ways)}."
            elif clean and len(between) > 1:
                yield f"No smaller change than to {self.about(between[-1])} lost nothing."
        for fault in self.faults:
            if not fault.counts:
                lost = [f"{self.about(each.choice)} {each.lost_in_short}" for each in fault.shown]
                yield f"Not in the verdict: when {fault.about}, {', '.join(lost)}."
        valid = [each.runs for _, each in columns[subject] if each.verdict == "valid"]
        runs = min(valid, default=0)
        if runs and _missed(runs) > _RARE:
            enough = next(n for n in itertools.count(runs) if _missed(n) <= _RARE)
            yield (
                f"{counted(runs, 'run')} of each fault may miss a loss that happens in up to "
                f"{share(_missed(runs))} of runs (95 %); {enough} runs bring that down to "
                f"{100 * _RARE:.0f} %."
            )

    def changes(self) -> Iterator[Change]:
        """The settings in which the choice and the reference differ."""
        reference = self.choices[self.labels[-1]]
        for setting, (value, to) in changes_of(reference, self.campaign.base).items():
            yield Change(setting=setting, value=value, reference=to)


def _found(column: Sequence[tuple[str, Tested]]) -> str:
    """What a choice lost under which faults, as a predicate."""
    lossy = [
        f"{each.in_short}{'' if place else ' acknowledged writes'} when {about}"
        + (f" (in {each.invalid} of {each.runs} runs)" if each.runs > 1 else "")
        for place, (about, each) in enumerate(pair for pair in column if pair[1].lost)
    ]
    wrong = [about for about, each in column if each.verdict == "invalid" and not each.lost]
    unknown = [about for about, each in column if each.verdict == "unknown"]
    clean = len(column) - len(lossy) - len(wrong) - len(unknown)
    parts = ["lost " + ", ".join(lossy)] if lossy else []
    if clean == len(column):
        of = f"any of the {clean} faults" if clean > 1 else "the fault"
        parts.append(f"lost nothing under {of}")
    elif clean:
        which = "the other " if lossy and not wrong and not unknown else ""
        count = "fault" if which and clean == 1 else counted(clean, "fault")
        parts.append(f"{'' if lossy else 'lost '}nothing under {which}{count}")
    if wrong:
        parts.append(f"stored duplicates or other wrong records when {' and when '.join(wrong)}")
    if unknown:
        under = " or ".join(f"when {about}" for about in unknown)
        if len(unknown) == len(column) > 1:
            under = f"under any of the {len(column)} faults"
        parts.append(f"{'' if parts else 'have '}no conclusive run {under}")
    return "; ".join(parts)


def _longest(gaps_s: Iterable[float | None]) -> float | None:
    return max((gap_s for gap_s in gaps_s if gap_s is not None), default=None)


def _missed(runs: int) -> float:
    """The share of runs that may be lossy where none of so many was."""
    return share_estimate(Share(0, runs)).high or 0
