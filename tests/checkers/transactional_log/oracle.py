"""What is true of a history of transactions, by the definitions, written as plainly as can be:
loops over operations, dictionaries and lists, every pair compared with every other."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

from checkers.transactional_log.values import rank

Op = dict[str, Any]
Thing = tuple[str, Any]
Edge = tuple[int, int]


class Truth(NamedTuple):
    """How many anomalies there are, by kind; the worst lag; by kind of graph, the length of the
    smallest cycle."""

    counts: Counter[str]
    lag_ns: int
    smallest: dict[str, int]


class _Done(NamedTuple):
    """An operation that completed."""

    at: int
    begun: int
    process: int
    type: str
    f: str
    sends: list[tuple[str, Any, int | None]]
    polls: list[tuple[str, Any, int]]
    keys: list[str]
    begun_ns: int
    ended_ns: int


def truth_of(ops: list[Op]) -> Truth:
    done = list(_done(ops))
    counts: Counter[str] = Counter()
    writer = {(k, v): d for d in done for k, v, _ in d.sends}
    ok_read = {(k, v) for d in done if d.type == "ok" for k, v, _ in d.polls}
    any_read = {(k, v) for d in done for k, v, _ in d.polls}
    committed = {
        d.at
        for d in done
        if d.type == "ok" or (d.type == "info" and any((k, v) in ok_read for k, v, _ in d.sends))
    }
    logs = _logs(done, committed)
    lost = _lost(logs, writer, ok_read, committed)
    counts["lost-write"] = len(lost)
    counts["unseen"] = sum(d.type == "ok" and t not in ok_read for t, d in writer.items())
    counts["unexpected"] = len(any_read - set(writer))
    counts["inconsistent-offsets"] = sum(len(v) > 1 for log in logs.values() for v in log.values())
    counts["duplicate"] = sum(
        sum(v in there for there in log.values()) > 1
        for log in logs.values()
        for v in {v for there in log.values() for v in there}
    )
    for d in done:
        own = {(k, v) for k, v, _ in d.sends}
        counts["precommitted-read"] += any((k, v) in own for k, v, _ in d.polls)
        if d.type == "ok":
            failed = [(k, v) in writer and writer[k, v].type == "fail" for k, v, _ in d.polls]
            counts["G1a"] += sum(failed)
        counts["torn-transaction"] += bool(own & lost) and bool(own & ok_read)
    picks = {k: [min(log[o], key=rank) for o in sorted(log)] for k, log in logs.items()}
    place = {k: {v: n for n, v in enumerate(order)} for k, order in picks.items()}
    _steps(done, place, counts)
    smallest = _cycles(done, writer, picks, place, counts)
    return Truth(+counts, _lag_ns(done), smallest)


def _done(ops: list[Op]) -> Iterator[_Done]:
    begun: dict[int, tuple[int, Op]] = {}
    for at, op in enumerate(ops):
        if op["type"] == "invoke":
            begun[op["process"]] = at, op
            continue
        first, invoked = begun[op["process"]]
        choice = op["f"] in ("assign", "subscribe")
        micro = [] if choice else op["value"]
        sends = [(str(m[1]), *_pair(m[2])) for m in micro if m[0] == "send"]
        polls = [
            (k, v, o)
            for m in micro
            if m[0] == "poll"
            for k, pairs in m[1].items()
            for o, v in pairs
        ]
        keys = [str(key) for key in op["value"]] if choice else []
        yield _Done(
            at,
            first,
            op["process"],
            op["type"],
            op["f"],
            sends,
            polls,
            keys,
            invoked["time"],
            op["time"],
        )


def _pair(value: Any) -> tuple[Any, int | None]:
    return (value[1], value[0]) if isinstance(value, list) else (value, None)


def _logs(done: list[_Done], committed: set[int]) -> dict[str, dict[int, set[Any]]]:
    """By key and offset: the values."""
    logs: dict[str, dict[int, set[Any]]] = defaultdict(lambda: defaultdict(set))
    for d in done:
        for k, v, o in d.polls:
            logs[k][o].add(v)
        for k, v, at in d.sends:
            if at is not None and d.at in committed:
                logs[k][at].add(v)
    return logs


def _lost(
    logs: dict[str, dict[int, set[Any]]],
    writer: dict[Thing, _Done],
    ok_read: set[Thing],
    committed: set[int],
) -> set[Thing]:
    lost = set()
    for k, log in logs.items():
        offsets = {v: [o for o in log if v in log[o]] for there in log.values() for v in there}
        bound = max((min(offsets[v]) for v in offsets if (k, v) in ok_read), default=-1)
        for (key, v), d in writer.items():
            if key != k or (k, v) in ok_read or d.at not in committed:
                continue
            if v in offsets:
                gone = max(offsets[v]) <= bound
            else:
                gone = d.type == "ok" and any(
                    min(offsets[w]) <= bound and (k, w) in writer and writer[k, w].begun > d.at
                    for w in offsets
                )
            if gone:
                lost.add((k, v))
    return lost


def _steps(done: list[_Done], place: dict[str, dict[Any, int]], counts: Counter[str]) -> None:
    def step(k: str, one: Any, two: Any, skip: str | None, back: str) -> None:
        known = place.get(k, {})
        delta = known[two] - known[one] if one in known and two in known else 1
        if delta > 1 and skip:
            counts[skip] += 1
        if delta < 1:
            counts[back] += 1

    polled: dict[int, dict[str, Any]] = defaultdict(dict)
    sent: dict[int, dict[str, Any]] = defaultdict(dict)
    for d in done:
        if d.f in ("assign", "subscribe"):
            if d.type != "fail":
                for last in (polled[d.process], sent[d.process]):
                    for key in set(last) - set(d.keys):
                        del last[key]
            continue
        for values, last, prefix in (
            (_by_key(d.polls), polled[d.process], "poll"),
            (_by_key(d.sends), sent[d.process], "send"),
        ):
            polls = prefix == "poll"
            for k, each in values.items():
                for one, two in pairwise(each):
                    step(k, one, two, f"int-{prefix}-skip", f"int-nonmonotonic-{prefix}")
                if k in last and (polls or d.type != "fail"):
                    step(
                        k,
                        last[k],
                        each[0],
                        "poll-skip" if polls else None,
                        f"nonmonotonic-{prefix}",
                    )
            if d.type == "ok" or (d.type == "info" and not polls):
                last.update({k: each[-1] for k, each in values.items()})


def _by_key(rows: list[tuple[str, Any, Any]]) -> dict[str, list[Any]]:
    values: dict[str, list[Any]] = defaultdict(list)
    for k, v, _ in rows:
        values[k].append(v)
    return values


def _cycles(
    done: list[_Done],
    writer: dict[Thing, _Done],
    picks: dict[str, list[Any]],
    place: dict[str, dict[Any, int]],
    counts: Counter[str],
) -> dict[str, int]:
    ww: set[Edge] = set()
    for (k, v), d in writer.items():
        at = place.get(k, {}).get(v, 0)
        if at > 0 and (k, picks[k][at - 1]) in writer:
            ww.add((writer[k, picks[k][at - 1]].at, d.at))
    wr = {(writer[k, v].at, d.at) for d in done for k, v, _ in d.polls if (k, v) in writer}
    ww, wr = ({(a, b) for a, b in edges if a != b} for edges in (ww, wr))
    rt = {(a.at, b.at) for a in done if a.type == "ok" for b in done if a.at < b.begun}
    pure = _components(wr)
    inside = set().union(*pure)
    mixed = [c for c in _components(ww | wr) if not c & inside and _within(wr, c)]
    behind = [c for c in _components(wr | rt) if not c & inside and _within(wr, c)]
    counts["G0"] = len(_components(ww))
    counts["G1c"] = len(pure) + len(mixed)
    counts["G1c-realtime"] = len(behind)
    smallest = {}
    for name, components, edges, needed in (
        ("G0", _components(ww), ww, ww),
        ("wr", pure, wr, wr),
        ("mixed", mixed, ww | wr, wr),
        ("G1c-realtime", behind, wr | rt, wr),
    ):
        lengths = [_smallest(_within(edges, c), _within(needed, c)) for c in components]
        if lengths:
            smallest[name] = min(lengths)
    return smallest


def _within(edges: set[Edge], nodes: set[int]) -> set[Edge]:
    return {(a, b) for a, b in edges if a in nodes and b in nodes}


def _distances(edges: set[Edge]) -> dict[int, dict[int, int]]:
    """How far each node is from each other."""
    leaving: dict[int, set[int]] = defaultdict(set)
    for a, b in edges:
        leaving[a].add(b)
    found = {}
    for start in {node for edge in edges for node in edge}:
        far, now, steps = {start: 0}, {start}, 0
        while now:
            steps += 1
            now = {b for a in now for b in leaving[a]} - set(far)
            far |= dict.fromkeys(now, steps)
        found[start] = far
    return found


def _components(edges: set[Edge]) -> list[set[int]]:
    far = _distances(edges)
    found = {frozenset(b for b in far[a] if a in far[b]) for a in far}
    return [set(each) for each in found if len(each) > 1]


def _smallest(edges: set[Edge], needed: set[Edge]) -> int:
    """The length of the smallest cycle with an edge that is needed."""
    far = _distances(edges)
    return min(1 + far[b][a] for a, b in needed)


def _lag_ns(done: list[_Done]) -> int:
    worst = 0
    known: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for d in done:
        if d.type != "fail":
            for k, o in _furthest(d).items():
                known[k].append((o, d.ended_ns))
    reached: dict[int, dict[str, int]] = defaultdict(dict)
    for d in done:
        if d.type != "ok":
            continue
        mine = reached[d.process]
        if d.f == "assign":
            reached[d.process] = {key: mine.get(key, -1) for key in d.keys}
        elif d.f == "subscribe":
            mine.clear()
        elif d.f in ("poll", "txn"):
            for k, o in _furthest(d).items():
                mine[k] = max(mine.get(k, -1), o)
            for k, o in mine.items():
                gone = [ns for offset, ns in known[k] if offset > o]
                worst = max(worst, d.begun_ns - gone[0] if gone else 0)
    return worst


def _furthest(d: _Done) -> dict[str, int]:
    found: dict[str, int] = {}
    for k, _, o in [*d.sends, *d.polls]:
        if o is not None:
            found[k] = max(found.get(k, -1), o)
    return found
