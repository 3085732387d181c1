"""Hand-made histories of sets: operations as Jepsen's maps, and what is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow.compute as pc

from checkers.judging.outside import convert
from checkers.judging.results import check_document
from checkers.sets import Set, Tally, tally
from checkers.sets.columns import SetHistory, paired
from harness.history.rows import Rows
from harness.protocols import CheckResult, Facts

Op = dict[str, Any]

MS = 1_000_000


def begin_add(value: int, process: int = 0) -> Op:
    return {"process": process, "type": "invoke", "f": "add", "value": value}


def end_add(value: int, end: str = "ok", process: int = 0) -> Op:
    return {**begin_add(value, process), "type": end}


def add(value: int, end: str = "ok", process: int = 0) -> list[Op]:
    """An add that begins and completes here."""
    return [begin_add(value, process), end_add(value, end, process)]


def begin_read(process: int = 9) -> Op:
    return {"process": process, "type": "invoke", "f": "read", "value": None}


def end_read(*values: int, process: int = 9, end: str = "ok") -> Op:
    return {**begin_read(process), "type": end, "value": list(values)}


def read(*values: int, process: int = 9, end: str = "ok") -> list[Op]:
    """A read that begins and completes here."""
    return [begin_read(process), end_read(*values, process=process, end=end)]


def flat(*ops: Op | list[Op]) -> list[Op]:
    return [op for each in ops for op in (each if isinstance(each, list) else [each])]


def timed(*ops: Op | list[Op], step_ns: int = MS) -> list[Op]:
    """These operations with an index and, a step apart, a time."""
    return [{**op, "index": n, "time": n * step_ns} for n, op in enumerate(flat(*ops))]


def history(folder: Path, ops: list[Op]) -> SetHistory:
    """What is read from a file of these operations."""
    file = folder / "history.jsonl"
    file.write_bytes(b"".join(orjson.dumps(op) + b"\n" for op in ops))
    return read_lines(file)


def read_lines(file: Path) -> SetHistory:
    """The history that a file holds, by way of the rows of a run."""
    facts = convert(file, file.parent / "rows", "set")
    return paired(Rows(facts).operations(), timed=facts.timed)


class Judged(NamedTuple):
    """What a history shows, and what the checker makes of it."""

    tally: Tally
    result: CheckResult

    @property
    def verdict(self) -> str:
        return str(check_document("set", self.result)["verdict"])


def judge(history: SetHistory, *, linearizable: bool = False) -> Judged:
    shown, facts = tally(history), Facts(run_id="", history=(), reads=(), ends=())
    return Judged(shown, Set(linearizable=linearizable).judge(Rows(facts), shown))


class Said(NamedTuple):
    """What the checker says of a history, in plain Python."""

    judged: Judged

    @property
    def counts(self) -> dict[str, int]:
        """The counts that are not 0."""
        return {name: n for name, n in self.judged.tally.counts.items() if n}

    @property
    def final(self) -> dict[str, int]:
        """The counts of the last read that are not 0."""
        assert self.judged.tally.read is not None
        counts: dict[str, int] = self.judged.tally.read["counts"]
        return {name: n for name, n in counts.items() if n}

    @property
    def counter_examples(self) -> list[str]:
        return [each.name for each in self.judged.result.counter_examples]

    @property
    def doubts(self) -> list[str]:
        return [each.name for each in self.judged.result.doubts]

    def found(self, kind: str) -> list[dict[str, Any]]:
        """The findings of one kind, without what is null."""
        findings = self.judged.tally.findings
        rows = findings.filter(pc.equal(findings["kind"], kind)).to_pylist()
        return [{name: n for name, n in row.items() if n is not None} for row in rows]


def said(folder: Path, *ops: Op | list[Op], linearizable: bool = False) -> Said:
    """What the checker says of these operations, which are timed a millisecond apart."""
    return Said(judge(history(folder, timed(*ops)), linearizable=linearizable))
