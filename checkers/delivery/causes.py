"""Why a group skipped a record, or processed it again: the commit, and the assignment, that did it.

Each skipped record has been passed by an assignment that was to begin above it, or that handed over
a later one: the first such after the record was handed over last, if ever. Each record that was
processed again has two readers: either the earlier one went on after the later one had been
assigned the partition, or that one was given a committed offset that is not above the record, and
the commits of that place say why. What no row decides is unexplained. Facts name rows of
`deliveries/`, counted from 0 over all parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from checkers.delivery.records import NOBODY, WIDTH, Commits, Did, GroupRows, Records, sessions
from harness.history.autopsy import fault_facts
from harness.protocols import NOT_EXAMINED, UNEXPLAINED, Explanation, Fact, Facts
from harness.protocols import explanations as why
from harness.protocols.groups import KINDS
from harness.protocols.runs import FAIL, NULL, OK, Ints


class Event(NamedTuple):
    """What passed some records, or had them processed again. `first`, `then`: the assignments of
    the reader that had them before, and of the next one; `commit`: which of all outcomes; NOBODY
    where there is none."""

    cause: str
    first: int = NOBODY
    then: int = NOBODY
    commit: int = NOBODY


def explanations(
    facts: Facts, rows: GroupRows, records: Records, commits: Commits
) -> Iterator[Explanation]:
    """Of all skipped records, and of each processing of a record but the first."""
    causes, log, again = _Causes(rows, records, commits.outcomes), rows.log, records.again
    found: dict[tuple[str, int, Event], list[tuple[int, int, int]]] = {}
    places, last_handed = log.find(*causes.delivered[2:5]), np.full(len(log.place), NOBODY)
    last_handed[places[places != NOBODY]] = np.flatnonzero(places != NOBODY)
    for at in records.skipped.tolist():
        (partition, offset), handed = divmod(int(log.place[at]), WIDTH), int(last_handed[at])
        seen_ns = NULL if handed == NOBODY else int(causes.delivered.time_ns[handed])
        event = causes.skipped(partition, offset, handed)
        known = (offset, int(log.value[at]), seen_ns)
        found.setdefault(("skipped", partition, event), []).append(known)
    for at, partition in enumerate(again.partition.tolist()):
        event, seen_ns = causes.reprocessed(at)
        known = (int(again.offset[at]), int(again.value[at]), seen_ns)
        found.setdefault(("reprocessed", partition, event), []).append(known)
    for (kind, partition, event), some in found.items():
        offsets, values, times_ns = zip(*some, strict=True)
        if chain := sorted(causes.facts(kind, event, max(offsets), min(times_ns))):
            chain += fault_facts(facts.windows, chain[0].at_s or 0.0, chain[-1].at_s or 0.0)
        yield Explanation(
            kind=kind,
            cause=NOT_EXAMINED if facts.gaps.history else event.cause,
            values=values,
            partition=partition,
            first=min(offsets),
            last=max(offsets),
            facts=tuple(sorted(chain)),
        )


def _rows(did: Did, **wanted: int) -> Ints:
    """The rows of which these columns are so."""
    chosen = np.ones(len(did.row), np.bool_)
    for name, value in wanted.items():
        chosen &= getattr(did, name) == value
    return np.flatnonzero(chosen)


class _Causes:
    def __init__(self, rows: GroupRows, records: Records, commits: Did) -> None:
        self.rows, self.records, self.commits = rows, records, commits
        self.assign, self.delivered = rows.did[KINDS.assign], rows.did[KINDS.deliver]
        self.processed = rows.did[KINDS.process]
        self.handed_in = sessions(rows, self.delivered)
        self.processed_in = sessions(rows, self.processed)
        self.committed_in = sessions(rows, commits)
        self.before_in = sessions(rows, records.again_before)
        self.again_in = sessions(rows, records.again)

    def read(self, session: int) -> tuple[int, int, int] | None:
        """What its member was given as committed, and when it had asked and was answered; `None`
        where it was given no answer."""
        asked, of = self.rows.did[KINDS.committed], self.assign
        whose = {name: getattr(of, name)[session] for name in ("who", "partition", "begun_ns")}
        for at in _rows(asked, mark=OK, **whose):
            return int(asked.offset[at]), int(asked.begun_ns[at]), int(asked.time_ns[at])
        return None

    def above(self, partition: int, offset: int) -> Ints:
        """The commits of a partition above an offset."""
        found = _rows(self.commits, partition=partition)
        return found[self.commits.offset[found] > offset]

    def truncated(self, partition: int, offset: int, before_row: int) -> bool:
        """Whether a record that is gone from the log had been handed over there, or above."""
        gone = self.records.phantoms
        here = (gone.partition == partition) & (gone.offset >= offset) & (gone.row < before_row)
        return bool(here.any())

    def skipped(self, partition: int, offset: int, handed: int) -> Event:
        """What passed a record, which was last handed over by that row."""
        did, commits, assign = self.delivered, self.commits, self.assign
        first, since = NOBODY, NOBODY
        kept = self.above(partition, offset)
        kept = kept[commits.mark[kept] != FAIL]
        if handed != NOBODY:
            first, since = int(self.handed_in[handed]), int(did.row[handed])
        later = _rows(assign, partition=partition)
        later = later[assign.row[later] > since]
        if handed != NOBODY:
            following = int([*later, NOBODY][0])
            went_on = (self.processed_in == first) & (self.processed.offset > offset)
            if (self.processed.row[went_on] > since).any():
                return Event(UNEXPLAINED, first, following)
            own = kept[(commits.who[kept] == did.who[handed]) & (commits.row[kept] > since)]
            if len(own):
                return Event(why.EARLY_COMMIT, first, following, int(own[0]))
        for then in later.tolist():
            read, handed_then = self.read(then), did.some(self.handed_in == then)
            reached = handed_then.offset.max(initial=assign.offset[then])
            if max(reached, NULL if read is None else read[0]) > offset:
                until = int(handed_then.row.max(initial=assign.row[then]))
                if self.truncated(partition, offset, until):
                    return Event(why.TRUNCATED, first, then)
                cause, commit = self._passed(partition, offset, handed, then)
                return Event(cause, first, then, commit)
        return Event(why.FOREIGN_COMMIT if len(kept) else UNEXPLAINED, first, NOBODY, *kept[:1])

    def _passed(self, partition: int, offset: int, handed: int, then: int) -> tuple[str, int]:
        """Why an assignment passed a record: cause and commit."""
        did, commits, start = self.delivered, self.commits, self.assign.offset[then]
        if (read := self.read(then)) is None:
            return UNEXPLAINED, NOBODY
        committed, asked_ns, answered_ns = read
        if committed == NULL and NULL < start <= offset:
            return why.JUMPED, NOBODY
        if committed == NULL:
            done = _rows(commits, partition=partition, mark=OK)
            done = done[commits.time_ns[done] <= asked_ns]
            return (why.RESET_LOST, int(done[-1])) if len(done) else (why.RESET, NOBODY)
        if committed <= offset:
            before = did.offset[(self.handed_in == then) & (did.offset < offset)]
            position = max(before.max(initial=NOBODY) + 1, committed)
            deleted = position < self.rows.log.start[partition]
            return why.RESET_DELETED if deleted else why.JUMPED, NOBODY
        author = _rows(commits, partition=partition, offset=committed)
        author = author[(commits.mark[author] != FAIL) & (commits.begun_ns[author] <= answered_ns)]
        if len(author):
            return why.FOREIGN_COMMIT, int(author[-1])
        # No row has it: libraries commit what they have handed over, and report it later.
        last = _rows(did, partition=partition, offset=committed - 1)
        had = set(did.who[last[did.row[last] < self.assign.row[then]]].tolist())
        own = handed != NOBODY and had == {int(did.who[handed])}
        return why.EARLY_COMMIT if own else UNEXPLAINED, NOBODY

    def reprocessed(self, at: int) -> tuple[Event, int]:
        """Why a record was processed once more, and when its earlier reader had processed it."""
        again, before = self.records.again, self.records.again_before
        first, then = int(self.before_in[at]), int(self.again_in[at])
        seen_ns = int(before.time_ns[at])
        if NOBODY in (first, then):
            return Event(UNEXPLAINED, first, then), seen_ns
        partition, offset = int(again.partition[at]), int(again.offset[at])
        moved = self.truncated(partition, 0, int(again.row[at]))
        back = why.TRUNCATED if moved else why.WENT_BACK
        if first == then:
            return Event(back, first, then), seen_ns
        older, newer = sorted((first, then), key=lambda each: int(self.assign.row[each]))
        older_ns = int((before if older == first else again).time_ns[at])
        if older_ns > self.assign.time_ns[newer]:
            return Event(why.ZOMBIE, older, newer), older_ns
        cause, commit = self._uncommitted(partition, offset, first, then, back)
        return Event(cause, first, then, commit), seen_ns

    def _uncommitted(
        self, partition: int, offset: int, first: int, then: int, back: str
    ) -> tuple[str, int]:
        """Why a reader began at or below a record that had been processed: cause and commit."""
        read, commits, above = self.read(then), self.commits, self.above(partition, offset)
        if read is None:
            return UNEXPLAINED, NOBODY
        committed, asked_ns, answered_ns = read
        if committed > offset:
            return back, NOBODY
        acknowledged = above[commits.mark[above] == OK]
        if len(done := acknowledged[commits.time_ns[acknowledged] <= asked_ns]):
            lower = _rows(commits, partition=partition, offset=committed)
            possible = (commits.mark[lower] != FAIL) & (commits.begun_ns[lower] <= answered_ns)
            late = commits.time_ns[lower] >= commits.begun_ns[done].max()
            lower = lower[possible & (late | (commits.mark[lower] != OK))]
            if committed == NULL or not len(lower):
                return why.COMMIT_LOST, int(done[np.argmax(commits.offset[done])])
            author = int(self.committed_in[lower[-1]])
            given = None if author in (NOBODY, then) else self.read(author)
            if given and given[0] <= offset and (commits.time_ns[done] <= given[1]).any():
                return self._uncommitted(partition, offset, first, author, back)  # lost by then
            return why.SET_BACK, int(lower[-1])
        if len(late := acknowledged[commits.begun_ns[acknowledged] <= answered_ns]):
            return why.LATE, int(late[0])
        if len(own := above[self.committed_in[above] == first]):
            return why.REFUSED if commits.mark[own[-1]] == FAIL else why.NO_OUTCOME, int(own[-1])
        return why.UNCOMMITTED, NOBODY

    def facts(self, kind: str, event: Event, last: int, seen_ns: int) -> Iterator[Fact]:
        """The chain of events; of the commit that was set back, too."""
        _, first, then, commit = event
        chosen = [] if commit == NOBODY else [commit]
        if event.cause == why.SET_BACK:
            above = self.above(int(self.commits.partition[commit]), last)
            above = above[(self.commits.mark[above] == OK) & (above < commit)]
            chosen += above[np.argsort(self.commits.offset[above])][-1:].tolist()
        readers = {first, then, *(int(self.committed_in[at]) for at in chosen)} - {NOBODY}
        yield from (self._assigned(session) for session in sorted(readers))
        if first != NOBODY:
            did = "was handed them" if kind == "skipped" else "had processed them"
            text = f"{self._member(self.assign, first)} {did}"
            yield Fact(kind="processed", at_s=seen_ns / 1e9, text=text, source="deliveries")
        yield from (self._committed(at) for at in chosen)
        if first != NOBODY:
            yield from self._ended(first)

    def _assigned(self, session: int) -> Fact:
        read, handed = self.read(session), self.delivered.offset[self.handed_in == session]
        given = "what was committed is not known" if read is None else "nothing committed"
        if read is not None and read[0] != NULL:
            given = f"{read[0]:,} as committed"
        text = f"was assigned the partition, with {given}"
        text += f", and was first handed {handed[0]:,}" if len(handed) else ""
        return self._fact("assigned", self.assign, session, text)

    def _committed(self, at: int) -> Fact:
        commits, how = self.commits, "its outcome is not known"
        if commits.mark[at] == OK:
            how = f"acknowledged at {commits.time_ns[at] / 1e9:.2f} s"
        how = "refused" if commits.mark[at] == FAIL else how
        return self._fact("commit", commits, at, f"committed {commits.offset[at]:,} ({how}", ")")

    def _ended(self, session: int) -> Iterator[Fact]:
        """How the reader of an assignment lost it: its life ended, or the partition was revoked."""
        assign, who = self.assign, self.assign.who[session]
        stop, revoke = self.rows.did[KINDS.stop], self.rows.did[KINDS.revoke]
        ends = [(stop, at, "ended") for at in _rows(stop, who=who)]
        lost = _rows(revoke, who=who, partition=assign.partition[session])
        ends += [(revoke, at, "lost the partition") for at in lost]
        after = [each for each in ends if each[0].row[each[1]] > assign.row[session]]
        if after:
            yield self._fact("ended", *min(after, key=lambda each: int(each[0].row[each[1]])))

    def _member(self, did: Did, at: int) -> str:
        """`consumer-1 (life 2, generation 7)`."""
        (consumer, life), generation = self.rows.lives[did.who[at]], did.generation[at]
        return (
            f"{consumer} (life {life}{'' if generation == NULL else f', generation {generation}'})"
        )

    def _fact(self, kind: why.FactKind, did: Did, at: int, text: str, closing: str = "") -> Fact:
        row, at_ns = int(did.row[at]), did.begun_ns[at] if kind == "commit" else did.time_ns[at]
        if error := self.rows.errors.get(row):
            text += f": {error}"
        text = f"{self._member(did, at)} {text}{closing}"
        place = f"deliveries/:{row}"
        return Fact(kind=kind, at_s=float(at_ns) / 1e9, text=text, source="deliveries", place=place)
