"""Judging transactions on logs: a million operations on one core, beside dictionaries.

Histories are made from a seed, with their truth: 12 processes send one or two values each, 12 poll
what was sent before, all at once and in random order, to and from 24 logs; some values are never
polled. The columns are what rows of a run give; reading a file is measured by itself, as JSON lines
and as EDN. Dictionaries do the same counts as Jepsen does, operation by operation, on a small
history.

    python -m bench.transactions              all, and an exit code
    python -m bench.transactions OPERATIONS   one history of this size
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import edn_format
import numpy as np
import orjson

from checkers.transactional_log import Judged, judge
from checkers.transactional_log.columns import history_of
from harness.history.outside import operations
from harness.models.micro_ops import POLL, SEND
from harness.protocols import NULL, Ints, Operations
from harness.protocols.runs import INVOKED, OK, Lists, Texts

SEED: Final = 2013
OPERATIONS: Final = 1_000_000
BESIDE: Final = 50_000
LINES: Final = 20_000
AT_LEAST_PER_S: Final = 250_000
"""The least that passes: what Jepsen's author states of real checkers, on many cores."""
LOST: Final = 0.001
AGAIN: Final = 3
_SIDE: Final = 12
_KEYS: Final = 24
_NAMES: Final = ("txn",)


class Made(NamedTuple):
    """The rows of a run, and how many values were never polled though later ones were."""

    rows: Operations
    lost: int
    unseen: int


class _Values(NamedTuple):
    """One row a value, in the order of its log; its operation's round and process."""

    round: Ints
    process: Ints
    key: Ints
    offset: Ints
    value: Ints


def made(number: int) -> Made:
    """A history of so many operations, in rounds: all processes begin, then all end."""
    rng = np.random.default_rng(SEED)
    rounds = max(3, number // (2 * _SIDE))
    values = _values(rng, rounds - 1)
    hidden = rng.random(len(values.key)) < LOST
    last = np.zeros(_KEYS, np.int64)
    np.maximum.at(last, values.key[~hidden], values.offset[~hidden])
    sends = _micro(values, SEND, 2 * values.round * 2 * _SIDE, values.process)
    begun = sends._replace(offset=np.full(len(sends.offset), NULL))
    some = _Values._make(column[~hidden] for column in values)
    polls = _micro(some, POLL, 2 * (some.round + 1) * 2 * _SIDE, _SIDE + some.key % _SIDE)
    width = 2 * _SIDE
    order = np.argsort(rng.random((rounds, width)), axis=1)
    ended = np.concatenate([np.tile(np.arange(width), (rounds, 1)), width + order], axis=1)
    place = np.argsort(ended, axis=1, kind="stable")  # the process of each row of a round
    process = np.where(place < width, place, place - width)
    row_of = (np.arange(rounds)[:, None] * 2 * width + np.argsort(place, axis=1)).ravel()
    parts = [begun, sends._replace(row=sends.row + width), polls._replace(row=polls.row + width)]
    micro = _Micro._make(np.concatenate(columns) for columns in zip(*parts, strict=True))
    rows = _rows(micro._replace(row=row_of[micro.row]), process.ravel(), width)
    return Made(rows, int((hidden & (values.offset < last[values.key])).sum()), int(hidden.sum()))


def _values(rng: np.random.Generator, rounds: int) -> _Values:
    times = rng.integers(1, 3, rounds * _SIDE)
    op = np.repeat(np.arange(rounds * _SIDE), times)
    key = rng.integers(0, _KEYS, len(op))
    order = np.lexsort((rng.random(len(op)), op // _SIDE, key))
    op, key = op[order], key[order]
    offset = np.arange(len(op)) - np.searchsorted(key, np.arange(_KEYS))[key]
    return _Values(op // _SIDE, op % _SIDE, key, offset, order)


class _Micro(NamedTuple):
    """Micro-operations by the row that they belong to: of an invocation, before rows are mixed."""

    row: Ints
    kind: Ints
    key: Ints
    offset: Ints
    value: Ints


def _micro(values: _Values, kind: int, base: Ints, process: Ints) -> _Micro:
    kinds = np.full(len(base), kind)
    return _Micro(base + process, kinds, values.key, values.offset, values.value)


def _rows(micro: _Micro, process: Ints, width: int) -> Operations:
    size = len(process)
    order = np.lexsort((micro.offset, micro.key, micro.row))
    elements = np.stack([column[order] for column in micro[1:]], axis=1).ravel()
    number = np.bincount(micro.row, minlength=size)
    starts = np.concatenate([[0], 4 * np.cumsum(number)])
    nothing = np.full(size, NULL)
    names = Texts(np.zeros(size, np.int32), list(_NAMES))
    absent = Texts.nulls(size)
    ends = np.arange(size) % (2 * width) >= width
    return Operations(
        place=np.arange(size),
        f=names,
        key=absent,
        value=nothing,
        expected=nothing,
        result=nothing,
        elements=Lists(starts, elements, number > 0),
        mark=np.where(ends, OK, INVOKED).astype(np.uint8),
        process=process,
        partition=nothing,
        offset=nothing,
        node=absent,
        error=absent,
        intended_ns=np.arange(size) * 1_000,
        time_ns=np.arange(size) * 1_000,
    )


def maps(rows: Operations) -> list[dict[str, Any]]:
    """The rows as Jepsen's maps."""
    four = rows.elements.values.reshape(-1, 4).tolist()
    starts = (rows.elements.starts // 4).tolist()
    found = []
    for row, (process, mark) in enumerate(zip(rows.process.tolist(), rows.mark, strict=True)):
        micro: list[Any] = []
        polled: dict[str, list[list[int]]] = {}
        for kind, key, offset, value in four[starts[row] : starts[row + 1]]:
            if kind == POLL:
                polled.setdefault(str(key), []).append([offset, value])
            else:
                micro.append(["send", key, value if offset == NULL else [offset, value]])
        if polled:
            micro.append(["poll", polled])
        end = "invoke" if mark == INVOKED else "ok"
        op = {"index": row, "process": process, "type": end, "f": "txn", "value": micro}
        found.append({**op, "time": row * 1_000})
    return found


def by_dictionaries(ops: Sequence[dict[str, Any]]) -> Counter[str]:
    """Lost and unseen values and skips of polls, as Jepsen counts them: by maps of maps."""
    writer: dict[tuple[str, int], str] = {}
    polled: dict[str, set[int]] = defaultdict(set)
    log: dict[str, dict[int, int]] = defaultdict(dict)
    for op in ops:
        if op["type"] == "invoke":
            continue
        for micro in op["value"]:
            if micro[0] == "send":
                key, (offset, value) = str(micro[1]), micro[2]
                writer[key, value] = op["type"]
                log[key][offset] = value
            else:
                for key, pairs in micro[1].items():
                    for offset, value in pairs:
                        log[key][offset] = value
                        polled[key].add(value)
    place = {key: {log[key][offset]: n for n, offset in enumerate(sorted(log[key]))} for key in log}
    bound = {key: max(place[key][value] for value in values) for key, values in polled.items()}
    counts: Counter[str] = Counter()
    for key, value in writer:
        if value not in polled[key]:
            counts["unseen"] += 1
            counts["lost-write"] += place[key][value] <= bound.get(key, -1)
    last: dict[tuple[int, str], int] = {}
    for op in ops:
        if op["type"] == "invoke":
            continue
        for micro in op["value"]:
            if micro[0] != "poll":
                continue
            for key, pairs in micro[1].items():
                at = last.get((op["process"], key))
                for n, (_, value) in enumerate(pairs):
                    here = place[key][value]
                    if at is not None and here - at > 1:
                        counts["int-poll-skip" if n else "poll-skip"] += 1
                    at = here
                last[op["process"], key] = at if at is not None else -1
    return counts


def judged(rows: Operations) -> tuple[Judged, float]:
    """What the checker says, and the seconds of one core that it took."""
    began = time.process_time()
    answer = judge(history_of([rows], file="bench"))
    return answer, time.process_time() - began


def measured(number: int) -> bool:
    """Judge one history and print what it took; whether the counts are the truth, in time. The
    first time the process gets its memory from the system, which the next ones have."""
    history = made(number)
    judged(made(1_000).rows)  # what is imported on first use
    answer, first_s = judged(history.rows)
    took_s = min(judged(history.rows)[1] for _ in range(AGAIN))
    ops, micro = len(history.rows.place) // 2, answer.counts["attempted"] + answer.counts["polled"]
    right = (answer.number("lost-write"), answer.number("unseen")) == history[1:]
    print(
        f"{ops:,} operations, {micro:,} values sent and polled: {first_s:.2f} s at first, then "
        f"{took_s:.2f} s, {ops / took_s:,.0f} operations/s, {micro / took_s:,.0f} values/s"
        f"{'' if right else '  COUNTS DIFFER FROM THE TRUTH'}",
        flush=True,
    )
    return right and ops / took_s >= AT_LEAST_PER_S


def beside_dictionaries() -> bool:
    """Print the time of dictionaries and of ours on one small history; whether they agree."""
    history = made(BESIDE)
    ops = maps(history.rows)
    began = time.process_time()
    theirs = by_dictionaries(ops)
    python_s = time.process_time() - began
    answer, ours_s = judged(history.rows)
    kinds = ("lost-write", "unseen", "poll-skip", "int-poll-skip")
    agree = {kind: answer.number(kind) for kind in kinds} == {k: theirs[k] for k in kinds}
    print(
        f"{len(ops) // 2:,} operations: all anomalies {ours_s * 1e3:.0f} ms, four of them by "
        f"dictionaries {python_s * 1e3:.0f} ms{'' if agree else '  COUNTS DIFFER'}",
        flush=True,
    )
    return agree


def reading() -> None:
    """Print how fast lines are read, as JSON and as EDN, and by the library of EDN alone."""
    ops = maps(made(LINES // 2).rows)
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("jsonl", orjson.dumps), ("edn", _edn)):
            file = Path(folder) / f"history.{name}"
            file.write_bytes(b"".join(text(op) + b"\n" for op in ops))
            began = time.process_time()
            lines = sum(1 for _ in operations(file))
            print(f"{file.name}: {lines / (time.process_time() - began):,.0f} lines/s", flush=True)
        some = file.read_text().splitlines()[:1000]
    began = time.process_time()
    for line in some:
        edn_format.loads(line)
    print(f"edn_format: {len(some) / (time.process_time() - began):,.0f} lines/s", flush=True)


def _edn(op: dict[str, Any]) -> bytes:
    names = {key: f":{op[key]}" for key in ("type", "f")}
    value = orjson.dumps(op["value"]).decode()
    value = value.replace('"send"', ":send").replace('"poll"', ":poll").replace('":', '" ')
    value = value.replace('"', "").replace(",", " ")
    rest = " ".join(f":{key} {op[key]}," for key in ("index", "time", "process"))
    return f"{{{rest} :type {names['type']}, :f {names['f']}, :value {value}}}".encode()


def main(arguments: list[str]) -> int:
    """1 if a count differs from the truth, or fewer operations a second are judged than must be."""
    if arguments:
        return 0 if measured(int(arguments[0])) else 1
    met = [measured(OPERATIONS), beside_dictionaries()]
    reading()
    return 0 if all(met) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
