"""What a campaign answers about the one choice that its policy names, such as the user's settings.

Each row is a fault: what the choice lost under it, what it cost, and the same with the reference,
which is the last choice of the axis. Choices between the two are the ways from one to the other:
the shortest that lost nothing is what to change. Counts are sums over runs with a verdict, and gaps
the longest of these: nothing here is a rate, as so few runs give none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from analysis.campaign import Finished, RunRow, by_cell_of, tallies_of
from analysis.statistics.shares import Share, share_estimate
from harness.campaigns.plan import Campaign, Choice, cell_name
from harness.campaigns.policy import BROKEN, INCONCLUSIVE, exit_code
from harness.history.documents import CONCLUSIVE
from harness.plan.cells import dotted_keys
from harness.plan.changes import dotted_parts
from reports.formatting import number, share
from reports.wording import counted

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
        """What was lost, of what."""
        if self.verdict == "unknown":
            return "not known"
        return f"{number(self.lost)} of {number(self.acknowledged)}"


@dataclass(frozen=True, kw_only=True)
class UnderFault:
    """One row. `counts`: whether the policy names it; `tested` begins with the choice, and ends
    with the reference."""

    name: str
    about: str
    counts: bool
    tested: Sequence[Tested]

    @property
    def shown(self) -> Sequence[Tested]:
        """Those two."""
        return self.tested[0], self.tested[-1]

    @property
    def title(self) -> str:
        return _capital(self.about)


@dataclass(frozen=True, kw_only=True)
class Change:
    """A setting in which the choice and the reference differ; `None`: it is not set."""

    setting: str
    from_: str | None
    to: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The field `answer` of campaign.json."""

    verdict: str
    headline: str
    sentences: Sequence[str]
    choices: Sequence[str]
    faults: Sequence[UnderFault]
    changes: Sequence[Change]

    @property
    def pages(self) -> list[str]:
        """The runs to which its table leads."""
        return [each.page for fault in self.faults for each in fault.shown if each.page]


def answer(
    campaign: Campaign, results: Sequence[Finished], rows: Sequence[RunRow]
) -> Answer | None:
    """The answer; `None` for a campaign whose policy does not name one choice of an axis."""
    named = campaign.plan.policy.cells
    axis = next((axis for axis, label in named.items() if not isinstance(label, list)), None)
    if axis is None:
        return None
    return _Asked(campaign, axis, str(named[axis]), rows).answer(
        exit_code(campaign.plan.policy, tallies_of(campaign, by_cell_of(campaign, results)))
    )


@dataclass(frozen=True)
class _Asked:
    campaign: Campaign
    axis: str
    subject: str
    rows: Sequence[RunRow]

    def answer(self, code: int) -> Answer:
        faults = list(self._faults())
        verdict = _VERDICTS.get(code, "valid")
        counted_ones = [each for each in faults if each.counts]
        headline, *more = self._sentences(counted_ones, verdict)
        return Answer(
            verdict=verdict,
            headline=headline,
            sentences=[
                *more,
                *self._beside(each for each in faults if not each.counts),
                *self._certainty(counted_ones),
            ],
            choices=[self._about(label) for label in self._shown],
            faults=faults,
            changes=list(self._changes()),
        )

    @property
    def _choices(self) -> Mapping[str, Choice]:
        """Those that are run."""
        run = {cell.key[self.axis] for cell in self.campaign.cells}
        choices = self.campaign.plan.axes[self.axis].by_label()
        return {label: choice for label, choice in choices.items() if label in run}

    @property
    def _reference(self) -> str:
        return list(self._choices)[-1]

    @property
    def _shown(self) -> list[str]:
        return [self.subject, self._reference]

    @property
    def _in_order(self) -> list[str]:
        between = [label for label in self._choices if label not in self._shown]
        return [self.subject, *between, self._reference]

    def _about(self, label: str) -> str:
        return self._choices[label].about or label

    def _faults(self) -> Iterator[UnderFault]:
        of_policy = {cell.name for cell in self.campaign.of_policy}
        names = {cell.name for cell in self.campaign.cells}
        for cell in self.campaign.cells:
            if cell.key[self.axis] == self.subject:
                others = {axis: of for axis, of in cell.key.items() if axis != self.axis}
                abouts = [
                    self.campaign.plan.axes[axis].by_label()[of].about
                    for axis, of in others.items()
                ]
                yield UnderFault(
                    name=cell_name(others),
                    about=" and ".join(filter(None, abouts)) or cell_name(others),
                    counts=cell.name in of_policy,
                    tested=[
                        self._tested(label, name)
                        for label in self._in_order
                        if (name := cell_name({**cell.key, self.axis: label})) in names
                    ],
                )

    def _tested(self, label: str, name: str) -> Tested:
        every = [row for row in self.rows if row["cell"] == name]
        runs = [row for row in every if row["verdict"] in CONCLUSIVE]
        invalid = [row for row in runs if row["verdict"] == "invalid"]
        counts = any(row["conclusive"] for row in runs)
        gaps_s = [row["longest_gap_s"] for row in runs if row["longest_gap_s"] is not None]
        worst = max(runs, key=lambda row: row["lost"] or 0, default=None)
        return Tested(
            choice=label,
            verdict="invalid" if invalid else "valid" if counts else "unknown",
            runs=len(runs),
            invalid=len(invalid),
            lost=sum(row["lost"] or 0 for row in runs),
            acknowledged=sum(row["acknowledged"] or 0 for row in runs),
            duplicates=sum(row["duplicates"] or 0 for row in runs),
            longest_gap_s=max(gaps_s, default=None),
            page=worst["run_id"] if worst else None,
            why=None if counts or invalid else next((row["reason"] for row in every), None),
        )

    def _sentences(self, faults: Sequence[UnderFault], verdict: str) -> Iterator[str]:
        """The headline, what else the choice lost, what the reference lost, what both cost, and
        what to change."""
        yours, reference = map(self._about, self._shown)
        lossy = [fault for fault in faults if _of(fault, self.subject).lost]
        found = self._found(faults, self.subject)
        if len(lossy) > 1:
            of = f"{len(lossy)} of {counted(len(faults), 'fault')}"
            yield f"{_capital(yours)} lost acknowledged writes under {of}"
            yield f"{_capital(yours)} {found}."
        else:
            yield f"{_capital(yours)} {found}"
        yield f"{_capital(reference)} {self._found(faults, self._reference)}."
        gaps_s = [_longest_gap_s(faults, label) for label in self._shown]
        if None not in gaps_s:
            yield (
                f"Longest time without an acknowledgement: {gaps_s[0]:.1f} s with {yours}, "
                f"{gaps_s[1]:.1f} s with {reference}."
            )
        if verdict == "invalid":
            yield from self._enough(faults)

    def _found(self, faults: Sequence[UnderFault], label: str) -> str:
        """What a choice lost under which faults, as a predicate."""
        tested = [(fault.about, _of(fault, label)) for fault in faults]
        lossy = [
            f"{each.in_short}{'' if place else ' acknowledged writes'} when {about}"
            + (f" (in {each.invalid} of {each.runs} runs)" if each.runs > 1 else "")
            for place, (about, each) in enumerate(pair for pair in tested if pair[1].lost)
        ]
        wrong = [about for about, each in tested if each.verdict == "invalid" and not each.lost]
        unknown = [about for about, each in tested if each.verdict == "unknown"]
        clean = len(tested) - len(lossy) - len(wrong) - len(unknown)
        parts = ["lost " + ", ".join(lossy)] if lossy else []
        if clean == len(tested):
            parts.append(f"lost nothing under {_all(clean)}")
        elif clean:
            which = "the other " if lossy and not wrong and not unknown else ""
            lost = "" if lossy else "lost "
            count = "fault" if which and clean == 1 else counted(clean, "fault")
            parts.append(f"{lost}nothing under {which}{count}")
        if wrong:
            parts.append(
                f"stored duplicates or other wrong records when {' and when '.join(wrong)}"
            )
        if unknown:
            parts.append(f"{'' if parts else 'have '}no conclusive run when {', '.join(unknown)}")
        return "; ".join(parts)

    def _enough(self, faults: Sequence[UnderFault]) -> Iterator[str]:
        """The smallest changes that lost nothing under these faults."""
        between = [label for label in self._choices if label not in self._shown]
        enough = [
            label
            for label in between
            if all(_of(each, label).verdict == "valid" for each in faults)
        ]
        fewest = min((len(self._choices[label].set) for label in enough), default=0)
        ways = [label for label in enough if len(self._choices[label].set) == fewest]
        if ways:
            changes = [" and ".join(_settings(self._choices[label])) for label in ways]
            yield f"The smallest change that lost nothing: {'; or '.join(changes)}."
        elif between and all(_of(each, self._reference).verdict == "valid" for each in faults):
            yield f"No smaller change than to {self._about(self._reference)} lost nothing."

    def _beside(self, faults: Iterable[UnderFault]) -> Iterator[str]:
        """What the policy leaves out."""
        for fault in faults:
            found = [f"{self._about(label)} {_lost(_of(fault, label))}" for label in self._shown]
            yield f"When {fault.about}, which the verdict leaves out, {', '.join(found)}."

    def _certainty(self, faults: Sequence[UnderFault]) -> Iterator[str]:
        """What so few runs may have missed."""
        clean = [_of(each, self.subject) for each in faults]
        runs = min((each.runs for each in clean if each.verdict == "valid"), default=0)
        if runs and (high := _high(runs)) > _RARE:
            enough = next(n for n in itertools.count(runs) if _high(n) <= _RARE)
            yield (
                f"{counted(runs, 'run')} of each fault may miss a loss that happens in up to "
                f"{share(high)} of runs (95 %); {enough} runs bring that down to "
                f"{100 * _RARE:.0f} %."
            )

    def _changes(self) -> Iterator[Change]:
        """The settings in which the choice and the reference differ."""
        cells = {cell.key[self.axis]: cell for cell in reversed(self.campaign.cells)}
        mine = {_short(key): of for key, of in dotted_keys(cells[self.subject].document).items()}
        for setting, value in self._choices[self._reference].set.items():
            own = mine.get(_short(setting))
            if _text(own) != _text(value):
                yield Change(
                    setting=_short(setting),
                    from_=None if own is None else _text(own),
                    to=_text(value),
                )


def _of(fault: UnderFault, label: str) -> Tested:
    return next(each for each in fault.tested if each.choice == label)


def _all(faults: int) -> str:
    return f"any of the {faults} faults" if faults > 1 else "the fault"


def _lost(tested: Tested) -> str:
    return "not known" if tested.verdict == "unknown" else f"lost {tested.in_short}"


def _longest_gap_s(faults: Sequence[UnderFault], label: str) -> float | None:
    gaps_s = [_of(each, label).longest_gap_s for each in faults]
    return max((gap_s for gap_s in gaps_s if gap_s is not None), default=None)


def _settings(choice: Choice) -> list[str]:
    return [f"{_short(key)}={_text(value)}" for key, value in choice.set.items()]


def _short(key: str) -> str:
    return dotted_parts(key)[-1]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _high(runs: int) -> float:
    return share_estimate(Share(0, runs)).high or 0


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
