"""Hand-made transactions in a short notation, and what the checkers say of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from checkers.elle.dependencies import Cycles, cycles_of, edges_of, ruled_out, weakest
from checkers.elle.history import anomalies_of, facts_of, history_of, versions_of
from harness.models.micro_ops import APPEND, READ, WRITE, read_of
from harness.protocols import MARKS, NULL, Lists, Operations, Texts

Step = tuple[str, int, int | tuple[int, ...] | None]
"""("a", key, value), ("w", key, value), ("r", key, what was read)."""


@dataclass(frozen=True)
class Txn:
    """A transaction from `begun` to `ended`. `end`: ok, fail or info."""

    steps: tuple[Step, ...]
    begun: int
    ended: int
    process: int = 0
    end: str = "ok"


def steps_of(text: str) -> tuple[Step, ...]:
    """Append 1 to x, read [1 2] of y, write 3 to z, read nothing of x: "ax1 ry12 wz3 rx_". A read
    of a register is r and a capital: "rX3"."""
    found = list[Step]()
    for f, key, value in re.findall(r"([arw])(\w)(\d*|_)", text):
        number = ord(key.lower()) - ord("x")
        if f != "r":
            found.append((f, number, int(value)))
        elif key.isupper():
            found.append((f, number, None if value in ("", "_") else int(value)))
        else:
            found.append((f, number, tuple(int(each) for each in value if each != "_")))
    return tuple(found)


def together(*texts: str) -> list[Txn]:
    """Transactions that all run at the same time, each in its process: "ax1", "fail ax1"."""
    found = []
    for place, text in enumerate(texts):
        end = next((each for each in ("fail", "info") if text.startswith(each)), "ok")
        steps = steps_of(text.removeprefix(end))
        found.append(Txn(steps, place, 1_000 + place, process=place, end=end))
    return found


def in_turn(*texts: str, process: int | None = None) -> list[Txn]:
    """Transactions of which each begins after the one before has ended."""
    return [
        Txn(t.steps, 2 * n, 2 * n + 1, n if process is None else process, t.end)
        for n, t in enumerate(together(*texts))
    ]


def operations(txns: Sequence[Txn]) -> Operations:
    """The rows of their history."""
    events = sorted(
        [(txn.begun, 0, n) for n, txn in enumerate(txns)]
        + [(txn.ended, 1, n) for n, txn in enumerate(txns)]
    )
    starts, values = [0], list[int]()
    for _, completes, n in events:
        for f, key, value in txns[n].steps:
            if f != "r":
                assert isinstance(value, int)
                values += APPEND if f == "a" else WRITE, key, NULL, value
            elif completes and txns[n].end == "ok":
                values += read_of(key, list(value) if isinstance(value, tuple) else value)
            else:
                values += READ, key, NULL, NULL
        starts.append(len(values))
    rows = len(events)
    marks = [getattr(MARKS, txns[n].end) if c else MARKS.invoked for _, c, n in events]
    nothing, zeros = np.full(rows, NULL), np.arange(rows)
    texts = Texts(np.zeros(rows, np.int32), ["txn"])
    return Operations(
        *(zeros, texts, Texts.nulls(rows), nothing, nothing, nothing),
        Lists(np.array(starts), np.array(values, np.int64), np.ones(rows, np.bool_)),
        np.array(marks, np.uint8),
        np.array([txns[n].process for _, _, n in events], np.int64),
        *(nothing, nothing, Texts.nulls(rows), Texts.nulls(rows)),
        *(zeros, zeros),
    )


def found_in(txns: Sequence[Txn], *, lists: bool = True) -> tuple[dict[str, int], Cycles]:
    """The anomalies and how many there are, and the cycles."""
    history = history_of([operations(txns)], lists=lists, file="made")
    versions = versions_of(history, file="made")
    facts = facts_of(history, versions)
    alone = {e.kind: len(e.op) for e in anomalies_of(history, versions, facts) if len(e.op)}
    cycles = cycles_of(edges_of(history, versions, facts), history.ops)
    return alone | cycles.numbers, cycles


def kinds(txns: Sequence[Txn], *, lists: bool = True) -> set[str]:
    return set(found_in(txns, lists=lists)[0])


def not_(txns: Sequence[Txn], *, lists: bool = True) -> set[str]:
    """The weakest models that are ruled out."""
    return set(weakest(ruled_out(kinds(txns, lists=lists))))
