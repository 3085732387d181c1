"""Why the lost writes of a run were lost, as its page shows it: the chain of events of each
partition, what became of its log, and what would have prevented the loss; and why consumers skipped
records, or processed them again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, islice
from typing import Final

from analysis.panels import TONES
from harness.history.documents import CONCLUSIVE, RunResult, read_result
from harness.history.explanations import Chain, chains_of
from harness.history.run_folder import RunDir
from harness.protocols import NOT_EXAMINED, UNEXPLAINED, Fact, Prevention
from harness.protocols.explanations import Stretch
from reports import formatting

_LINES_AT_MOST: Final = 12
_OPEN_AT_MOST: Final = 1
"""The number of partitions whose chains are unfolded: a run has as many lines as one."""
_CHARACTERS_AT_MOST: Final = 600
_KINDS: Final = (
    *("elected", "disk", "deleted", "truncated", "acknowledged", "in sync", "held by"),
    *("commit", "assigned", "ended", "processed", "fault"),
)
"""Kinds of facts, the most telling first: the others of a long chain are folded."""
_WEIGHT: Final = {kind: place for place, kind in enumerate(_KINDS)}


@dataclass(frozen=True)
class Step:
    """A line of a chain: a fact, with what its source says, or the loss itself."""

    at_s: float | None
    text: str
    source: str = ""
    place: str = ""
    quoted: str = ""
    kind: str = "lost"
    defect: bool = False


@dataclass(frozen=True)
class Story:
    """What lost writes of one partition."""

    partition: int | None
    chains: tuple[Chain, ...]
    quoted: Mapping[str, str]

    @property
    def writes(self) -> int:
        return sum(chain.writes for chain in self.chains)

    @cached_property
    def _all(self) -> list[Step]:
        facts = {(fact.text, fact.place): fact for chain in self.chains for fact in chain.facts}
        steps = [_step(fact, self.quoted) for fact in facts.values()]
        steps += [
            Step(_lost_at(c), f"{c.writes:,} {c.kind}: {c.sentence}", defect=c.defect)
            for c in self.chains
        ]
        return sorted(steps, key=lambda step: (step.at_s is None, step.at_s or 0.0))

    @cached_property
    def steps(self) -> list[Step]:
        """The lines that are shown, in order of time."""
        by_weight = sorted(self._all, key=lambda step: _WEIGHT.get(step.kind, -1))
        shown = {id(step) for step in by_weight[:_LINES_AT_MOST]}
        return [step for step in self._all if id(step) in shown]

    @property
    def folded(self) -> list[Step]:
        shown = {id(step) for step in self.steps}
        return [step for step in self._all if id(step) not in shown]

    @cached_property
    def logs(self) -> dict[str, list[Stretch]]:
        """What each node's log had before it was cut, the longest that an event of these tells of,
        and what is left at the end."""
        found: dict[str, list[Stretch]] = {}
        for chain in self.chains:
            for of, each in groupby(chain.logs, key=lambda stretch: stretch.of):
                longest = [list(each), found.pop(of, [])]
                found[of] = max(longest, key=lambda log: log[-1].behind if log else 0)
        return found

    @property
    def tones(self) -> dict[int | None, str]:
        """The colour of each epoch."""
        epochs = {each.epoch for log in self.logs.values() for each in log}
        named = sorted(each for each in epochs if each is not None)
        tones: dict[int | None, str] = {
            each: TONES[at % len(TONES)] for at, each in enumerate(named)
        }
        return tones | ({None: "muted"} if None in epochs else {})


@dataclass(frozen=True)
class Why:
    """Of all lost writes of a run, or of all records that were skipped, or processed again."""

    stories: tuple[Story, ...]
    kind: str = "lost"

    @property
    def lost(self) -> int:
        return sum(story.writes for story in self.stories)

    @property
    def chains(self) -> Iterator[Chain]:
        return (chain for story in self.stories for chain in story.chains)

    @property
    def unexplained(self) -> int:
        return sum(chain.writes for chain in self.chains if chain.cause == UNEXPLAINED)

    @property
    def not_examined(self) -> int:
        return sum(chain.writes for chain in self.chains if chain.cause == NOT_EXAMINED)

    @property
    def open(self) -> tuple[Story, ...]:
        return self.stories[:_OPEN_AT_MOST]

    @property
    def others(self) -> tuple[Story, ...]:
        return self.stories[_OPEN_AT_MOST:]

    @property
    def causes(self) -> list[tuple[Chain, int]]:
        """A chain of each cause, with how many writes it cost, the dearest first."""
        counts: Counter[str] = Counter()
        of: dict[str, Chain] = {}
        for chain in self.chains:
            counts[chain.cause] += chain.writes
            of.setdefault(chain.cause, chain)
        return [(of[cause], count) for cause, count in counts.most_common()]

    @property
    def survivors(self) -> int:
        """Of how many a node that was up and was not elected had a copy."""
        return sum(chain.survivors or 0 for chain in self.chains)

    @property
    def preventions(self) -> list[tuple[Prevention, str]]:
        """Each change that would have kept some of them, with its sentence, the best first."""
        found: dict[str, list[Prevention]] = {}
        for chain in self.chains:
            for each in chain.preventions:
                found.setdefault(each.change, []).append(each)
        merged = [_merged(every) for every in found.values()]
        merged.sort(key=lambda each: -each.writes)
        return [(each, each.sentence(self.lost)) for each in merged]


def why(rundir: RunDir, kind: str = "lost") -> Why | None:
    """Of a run without cells or of a cell; `None` where nothing was lost, or nobody asked. Raises
    HistoryError."""
    chains = [chain for chain in chains_of(rundir) if chain.kind == kind]
    chains.sort(key=lambda chain: (chain.partition is None, chain.partition))
    quoted = _quoted(rundir, [fact.place for chain in chains for fact in chain.facts])
    stories = [
        Story(partition, tuple(every), quoted)
        for partition, every in groupby(chains, key=lambda chain: chain.partition)
    ]
    stories.sort(key=lambda story: -story.writes)
    return Why(tuple(stories), kind) if stories else None


@dataclass(frozen=True, kw_only=True)
class Trial:
    """What became of a run when it was run again with a prevention. `holds`: whether the sentence
    did; `None`: that run says neither, and `why`."""

    change: str
    sentence: str
    before: str
    after: str = ""
    holds: bool | None = None
    why: str = ""
    run_id: str | None = None
    page: str | None = None

    @property
    def in_words(self) -> str:
        how = "not conclusive" if self.holds is None else "holds" if self.holds else "DOES NOT HOLD"
        return f"{how}: {self.why}" if self.why else how


def tried(before: RunDir, prevention: Prevention, after: RunDir) -> Trial:
    """Whether what is stated of a run that lost writes held in one of the same plan with the
    change. It does not if writes are lost for the same cause, unless a stricter value is stated for
    these: then they were acknowledged in another state than it is about. Raises HistoryError."""
    was, stated = read_result(before), why(before)
    now, left = read_result(after), why(after)
    assert stated is not None, "nothing is stated of a run that lost nothing"
    sentence = next(words for each, words in stated.preventions if each.change == prevention.change)
    key, value = prevention.key, prevention.value
    about = {chain.cause for chain in stated.chains if value in _stated(chain, key)}
    wrong = [
        chain
        for chain in (left.chains if left else ())
        if chain.defect or (chain.cause in about and not _stated(chain, key) - {value})
    ]
    lost = formatting.number(now.counts.lost)
    if now.verdict not in CONCLUSIVE:
        holds, reason = None, now.reason or ""
    elif wrong:
        holds = False
        reason = f"{sum(c.writes for c in wrong):,} were lost all the same: {wrong[0].sentence}"
    elif left and (others := left.unexplained + left.not_examined):
        holds, reason = None, f"{others:,} lost writes have no cause"
    else:
        holds, reason = True, f"{lost} were lost otherwise" if now.counts.lost else ""
    return Trial(
        change=prevention.change,
        sentence=sentence,
        before=_lost_of(was),
        after=_lost_of(now),
        holds=holds,
        why=reason,
        run_id=after.run_id,
    )


def _stated(chain: Chain, key: str) -> set[str]:
    """The values of this key that it states as preventions."""
    return {each.value for each in chain.preventions if each.key == key}


def _lost_of(result: RunResult) -> str:
    return f"{formatting.lost(result)} of {result.counts.acknowledged:,}"


def _merged(every: Sequence[Prevention]) -> Prevention:
    reasons = list(dict.fromkeys(each.because for each in every))
    because = reasons[0] if len(reasons) == 1 else f"{reasons[0]}, or alike"
    return replace(every[0], writes=sum(each.writes for each in every), because=because)


def _lost_at(chain: Chain) -> float | None:
    """When they were lost: just after the election that dropped them; or their reader was
    assigned."""
    last = ("elected", "deleted") if chain.kind == "lost" else ("assigned",)
    elected = [fact.at_s for fact in chain.facts if fact.kind in last]
    known = [at_s for at_s in elected if at_s is not None]
    return max(known) + 1e-6 if known else None


def _step(fact: Fact, quoted: Mapping[str, str]) -> Step:
    return Step(
        at_s=fact.at_s,
        text=fact.text,
        source=fact.source,
        place=fact.place,
        quoted=quoted.get(fact.place) or fact.record[:_CHARACTERS_AT_MOST],
        kind=fact.kind,
    )


def _quoted(rundir: RunDir, places: Sequence[str]) -> dict[str, str]:
    """The lines of the folder's files that facts name, `FILE:NUMBER`. What is missing is left
    out."""
    wanted: dict[str, set[int]] = {}
    for place in places:
        name, _, number = place.rpartition(":")
        if name and number.isdigit():
            wanted.setdefault(name, set()).add(int(number))
    found = {}
    root = rundir.of_run.path
    logs = {str(path.relative_to(root)): path for path in rundir.logs()}
    for name, numbers in wanted.items():
        if (path := logs.get(name)) is None or path.is_symlink():
            continue
        with path.open("rb") as stream:
            for at, line in enumerate(islice(stream, max(numbers)), 1):
                if at in numbers:
                    text = line.decode("utf-8", "replace").strip()
                    found[f"{name}:{at}"] = text[:_CHARACTERS_AT_MOST]
    return found
