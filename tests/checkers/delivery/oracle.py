"""The definitions of docs/how-to/consumers.md, one by one, over lists: slow, and plain to read."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from harness.protocols.groups import KINDS, Delivery
from tests.checkers.delivery.hand_made import Made, Write

Who = tuple[str | None, int | None]
Key = tuple[int, int, int]


class Commit(NamedTuple):
    """A commit that may have taken effect: `end` is None where nobody knows when, if ever."""

    who: Who
    partition: int
    offset: int
    begun: int
    end: int | None


def truth(made: Made) -> dict[str, int]:
    """The counts that the checker must have."""
    acknowledged = [write for write in made.writes_ if write.acknowledged]
    values = {write.value for write in acknowledged}
    log = {(r.partition, r.offset, r.value) for r in made.log}
    stored = {record.value for record in made.log}
    processed = [key(row) for row in of_kind(made, KINDS.process)]
    delivered = [key(row) for row in of_kind(made, KINDS.deliver)]
    done = {value for _, _, value in processed}
    missing = [each for each in log if each[2] in values and each[2] not in done]
    skipped = [each for each in missing if each[1] < bound(made, each[0])]
    phantoms = {
        each for each in delivered if each not in log and each[1] >= made.starts.get(each[0], 0)
    }
    gone = absent(made, done | stored)
    times = Counter(processed)
    truncated = {partition for partition, _, _ in phantoms}
    return {
        "attempted": len(made.writes_),
        "acknowledged": len(acknowledged),
        "processed": len(times),
        "processed_copies": len(times) - len({value for _, _, value in times}),
        "skipped": len(skipped),
        "skipped_delivered": sum(each in delivered for each in skipped),
        "pending": len(missing) - len(skipped),
        "purged_unseen": len(gone["purged"]),
        "not_yet_visible": len(gone["beyond"]),
        "lost": len(gone["lost"]),
        "reprocessed": sum(times.values()) - len(times),
        "reprocessed_most": max(times.values(), default=0),
        "reprocessed_beyond": beyond(made),
        "phantoms": len(phantoms),
        "phantoms_acknowledged": sum(each[2] in values for each in phantoms),
        "phantoms_moved": sum(each[2] in stored for each in phantoms),
        "out_of_order": out_of_order(made, log),
        "commits": sum(each.end is not None for each in commits(made)),
        "commits_refused": sum(r.type == "fail" for r in of_kind(made, KINDS.commit)),
        "commits_unknown": sum(each.end is None for each in commits(made)),
        "lost_commits": sum(shows_loss(made, read) for read in committed_reads(made)),
        "commits_back": sum(
            went_back(made, each) for each in known(made) if each.partition not in truncated
        ),
        "zombie_commits": sum(is_zombie(made, each) for each in known(made)),
        "committed_beyond_end": len(
            {
                row.partition
                for row in of_kind(made, KINDS.final)
                if row.type == "ok" and row.offset is not None and row.partition is not None
                if row.offset > made.end(row.partition)
            }
        ),
    }


def absent(made: Made, there: set[int]) -> dict[str, list[Write]]:
    """Acknowledged writes whose values are nowhere, by what may have become of them."""
    found: dict[str, list[Write]] = {"purged": [], "beyond": [], "lost": []}
    for write in made.writes_:
        if not write.acknowledged or write.value in there:
            continue
        start, at = made.starts.get(write.partition, 0), write.offset
        if start > 0 and (at is None or at < start):
            found["purged"].append(write)
        elif not made.whole and (at is None or at >= made.end(write.partition)):
            found["beyond"].append(write)
        else:
            found["lost"].append(write)
    return found


def of_kind(made: Made, kind: str) -> list[Delivery]:
    return [row for row in made.did if row.f == kind]


def key(row: Delivery) -> Key:
    assert row.partition is not None
    assert row.offset is not None
    assert row.value is not None
    return row.partition, row.offset, row.value


def who(row: Delivery) -> Who:
    return row.consumer, row.life


def bound(made: Made, partition: int) -> int:
    """What the group has passed: what is committed at the end, or where the last owner stood."""
    final = [r.offset for r in of_kind(made, KINDS.final) if r.partition == partition]
    left = [r for r in of_kind(made, KINDS.position) if r.partition == partition]
    last = max(left, key=lambda r: (r.time_ns, made.did.index(r))).offset if left else None
    return max((each for each in (*final, last) if each is not None), default=-1)


def commits(made: Made) -> list[Commit]:
    """All that were acknowledged, and all of which nobody knows."""
    rows, found = of_kind(made, KINDS.commit), []
    answered = {(who(r), r.partition, r.offset, r.begun_ns) for r in rows if r.type != "invoke"}
    for r in rows:
        name = (who(r), r.partition, r.offset, r.begun_ns)
        assert r.partition is not None
        assert r.offset is not None
        if r.type == "ok":
            found.append(Commit(who(r), r.partition, r.offset, r.begun_ns, r.time_ns))
        elif r.type == "info" or (r.type == "invoke" and name not in answered):
            found.append(Commit(who(r), r.partition, r.offset, r.begun_ns, None))
    return found


def known(made: Made) -> list[Commit]:
    return [each for each in commits(made) if each.end is not None]


def committed_reads(made: Made) -> list[Delivery]:
    rows = of_kind(made, KINDS.committed) + of_kind(made, KINDS.final)
    return [row for row in rows if row.type == "ok"]


def shows_loss(made: Made, read: Delivery) -> bool:
    """A commit was acknowledged before the read, and it gives less, or nothing, unexplained."""
    here = [each for each in commits(made) if each.partition == read.partition]
    for each in here:
        if each.end is None or each.end > read.begun_ns:
            continue
        if read.offset is None:
            return True
        if each.offset <= read.offset:
            continue
        explained = any(
            other.offset == read.offset
            and other.begun <= read.time_ns
            and (other.end is None or other.end >= each.begun)
            for other in here
        )
        if not explained:
            return True
    return False


def went_back(made: Made, commit: Commit) -> bool:
    return any(
        other.partition == commit.partition
        and other.end is not None
        and other.end < commit.begun
        and other.offset > commit.offset
        for other in known(made)
    )


def is_zombie(made: Made, commit: Commit) -> bool:
    """Another was assigned the partition before it began, later than its own life was until it
    ended, and in a later generation."""
    assert commit.end is not None
    given = [
        (row.generation, who(row), row.time_ns)
        for row in of_kind(made, KINDS.assign)
        if row.partition == commit.partition and row.generation is not None
    ]
    own = [(number, at) for number, each, at in given if each == commit.who and at < commit.end]
    return any(
        all(number > own_number and at > own_at for own_number, own_at in own)
        for number, each, at in given
        if each != commit.who and at < commit.begun
    )


def session(made: Made, row: Delivery) -> Delivery | None:
    """The assignment by which a consumer had the partition as a row was recorded."""
    before = made.did[: made.did.index(row)]
    mine = [
        each
        for each in before
        if each.f == KINDS.assign and who(each) == who(row) and each.partition == row.partition
    ]
    return mine[-1] if mine else None


def beyond(made: Made) -> int:
    """Repeated processings of what was committed for sure when their reader was assigned."""
    found, seen = 0, set[Key]()
    rows = sorted(of_kind(made, KINDS.process), key=lambda r: (r.time_ns, made.did.index(r)))
    for row in rows:
        assigned = session(made, row)
        if key(row) in seen and assigned is not None:
            found += key(row)[1] < floor(made, key(row)[0], assigned.begun_ns)
        seen.add(key(row))
    return found


def floor(made: Made, partition: int, time_ns: int) -> int:
    """The least offset that may have been the committed one then."""
    here = [each for each in commits(made) if each.partition == partition]
    done = [each for each in here if each.end is not None and each.end <= time_ns]
    if not done:
        return 0
    possible = [
        each.offset
        for each in here
        if each.begun <= time_ns
        and not any(each.end is not None and each.end < later.begun for later in done)
    ]
    return min(possible)


def out_of_order(made: Made, log: set[Key]) -> int:
    """Each record against the one before it in its assignment."""
    found, last = 0, dict[int, Delivery]()
    for row in of_kind(made, KINDS.deliver):
        assigned = session(made, row)
        if assigned is None:
            continue
        place = made.did.index(assigned)
        before = last.get(place)
        if before is not None:
            partition, offset, _ = key(before)
            gone = key(before) not in log and offset >= made.starts.get(partition, 0)
            found += key(row)[1] <= offset and not gone
        last[place] = row
    return found
