"""A slow reading of the definitions, in plain Python: every element against every read.

It goes over the list of operations and shares nothing with the checker. What it takes from the
definitions is said in words: of the reads that completed after an add began, the one that began
last decides; what it lacks is lost if the element was known when it began.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Op = dict[str, Any]


@dataclass
class Add:
    value: int
    process: int
    began: int | None = None
    ended: int | None = None
    type: str = "info"


@dataclass
class Read:
    began: int
    ended: int
    elements: list[int]


@dataclass
class Truth:
    """What is true of a history, in the words of the checker; latencies in ns."""

    counts: Counter[str] = field(default_factory=Counter)
    final: Counter[str] = field(default_factory=Counter)
    findings: set[tuple[str, int, int | None]] = field(default_factory=set)
    stable_ns: list[int] = field(default_factory=list)
    lost_ns: list[int] = field(default_factory=list)
    last: tuple[int, bool] | None = None
    unanswered: int = 0


def truth_of(ops: list[Op]) -> Truth:
    """Judge operations whose processes have one operation open at a time; positions are indices."""
    adds, reads, without = _paired(ops)
    truth = Truth()
    for add in adds.values():
        _judge(add, reads, ops, truth)
    for value in {value for read in reads for value in read.elements}:
        having = [read for read in reads if value in read.elements]
        if value not in adds:
            truth.counts["unexpected"] += 1
            truth.findings.add(("unexpected", value, min(read.ended for read in having)))
        most = max(read.elements.count(value) for read in having)
        if most > 1:
            first = min(read.began for read in having if read.elements.count(value) == most)
            truth.counts["duplicated"] += 1
            (ended,) = (read.ended for read in having if read.began == first)
            truth.findings.add(("duplicated", value, ended))
    _final(adds, reads, truth)
    late = [began for began in without if began > _added(adds)]
    if not any(read.began > _added(adds) for read in reads):
        truth.unanswered = len(late)
    return truth


def _added(adds: dict[int, Add]) -> int:
    """Where every add had completed that ever did."""
    return max((add.ended for add in adds.values() if add.ended is not None), default=-1)


def _paired(ops: list[Op]) -> tuple[dict[int, Add], list[Read], list[int]]:
    """The adds, the `ok` reads, and where the others began."""
    adds: dict[int, Add] = {}
    reads: list[Read] = []
    without: list[int] = []
    open_reads: dict[int, int] = {}
    for place, op in enumerate(ops):
        if op["f"] == "add":
            add = adds.setdefault(op["value"], Add(op["value"], op["process"]))
            if op["type"] == "invoke":
                add.began = place
            else:
                add.ended, add.type = place, op["type"]
        elif op["type"] == "invoke":
            open_reads[op["process"]] = place
        else:
            began = open_reads.pop(op["process"])
            if op["type"] == "ok":
                reads.append(Read(began, place, op["value"]))
            else:
                without.append(began)
    return adds, reads, without + list(open_reads.values())


def _judge(add: Add, reads: list[Read], ops: list[Op], truth: Truth) -> None:
    assert add.began is not None
    counts, findings, value = truth.counts, truth.findings, add.value
    acknowledged = add.type == "ok"
    counts["attempted"] += 1
    counts[{"ok": "acknowledged", "fail": "failed", "info": "unknown"}[add.type]] += 1

    early = [read.ended for read in reads if read.ended < add.began and value in read.elements]
    if early:
        counts["read_before_add"] += 1
        findings.add(("read_before_add", value, min(early)))

    relevant = sorted((read for read in reads if read.ended > add.began), key=lambda r: r.began)
    having = [read for read in relevant if value in read.elements]
    lacking = [read for read in relevant if value not in read.elements]
    moments = [read.ended for read in having]
    if acknowledged and add.ended is not None:
        moments.append(add.ended)
    known = min(moments, default=None)
    missed = [read for read in lacking if known is not None and read.began > known]
    if having and add.type != "ok":
        counts["recovered" if add.type == "info" else "failed_found"] += 1
        counts["unacknowledged_found"] += 1
        if add.type == "fail":
            findings.add(("failed_found", value, min(read.ended for read in having)))

    if relevant and relevant[-1] in having:
        assert known is not None
        counts["stable"] += 1
        truth.stable_ns.append(_waited_ns(ops, known, missed[-1] if missed else None))
        if missed:
            counts["stale"] += 1
            findings.add(("stale", value, missed[-1].ended))
    elif known is not None and relevant and relevant[-1] in missed:
        counts["lost"] += 1
        counts["lost_unacknowledged"] += not acknowledged
        findings.add(("lost", value, missed[-1].ended))
        truth.lost_ns.append(_waited_ns(ops, known, having[-1] if having else None))
    else:
        counts["never_read"] += 1
        if acknowledged:
            counts["never_read_acknowledged"] += 1
            findings.add(("never_read", value, None))


def _waited_ns(ops: list[Op], known: int, until: Read | None) -> int:
    """From when an element was known to just after a read began."""
    return 0 if until is None else max(0, int(ops[until.began]["time"] + 1 - ops[known]["time"]))


def _final(adds: dict[int, Add], reads: list[Read], truth: Truth) -> None:
    if not reads:
        return
    after = [read for read in reads if read.began > _added(adds)]
    last = max(after or reads, key=lambda read: read.ended)
    truth.last = (last.ended, bool(after))
    elements = set(last.elements)
    truth.final["duplicates"] = len(last.elements) - len(elements)
    truth.final["unexpected"] = len(elements - adds.keys())
    for add in adds.values():
        inside, acknowledged = add.value in elements, add.type == "ok"
        truth.final["attempted"] += 1
        truth.final["acknowledged"] += acknowledged
        truth.final["survivors"] += inside
        if inside and not acknowledged:
            truth.final["unacknowledged_found"] += 1
            truth.final["failed_found" if add.type == "fail" else "unknown_found"] += 1
        if acknowledged and not inside:
            assert add.ended is not None
            truth.final["lost" if add.ended < last.began else "not_yet_visible"] += 1
