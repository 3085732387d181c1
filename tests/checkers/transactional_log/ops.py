"""Hand-made histories of transactions: operations as Jepsen's maps, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from checkers.judging.one_run import checker_of, judge_history
from checkers.judging.outside import convert
from checkers.transactional_log.columns import History, history_of
from harness.history.rows import Rows

Op = dict[str, Any]

MS = 1_000_000


def send(key: Any, value: Any, offset: int | None = None) -> list[Any]:
    return ["send", key, value if offset is None else [offset, value]]


def poll(**pairs: Sequence[Sequence[Any]]) -> list[Any]:
    """A poll of keys, each with pairs of offset and value."""
    return ["poll", {key: [list(pair) for pair in each] for key, each in pairs.items()}]


def op(process: int, *micro: list[Any], end: str = "ok", f: str = "txn", **more: Any) -> list[Op]:
    """An operation that begins and completes here."""
    invoked = [
        [m[0], m[1], m[2][1] if isinstance(m[2], list) else m[2]] if m[0] == "send" else ["poll"]
        for m in micro
    ]
    one = {"process": process, "f": f}
    return [
        {**one, "type": "invoke", "value": invoked},
        {**one, "type": end, "value": list(micro), **more},
    ]


def assign(process: int, *keys: Any, end: str = "ok", f: str = "assign") -> list[Op]:
    one = {"process": process, "f": f, "value": list(keys)}
    return [{**one, "type": "invoke"}, {**one, "type": end}]


def subscribe(process: int, *keys: Any, end: str = "ok") -> list[Op]:
    return assign(process, *keys, end=end, f="subscribe")


def timed(*ops: list[Op]) -> list[Op]:
    """These operations with an index and, a millisecond apart, a time."""
    flat = [each for some in ops for each in some]
    return [{**each, "index": n, "time": n * MS} for n, each in enumerate(flat)]


def written(folder: Path, ops: Sequence[Mapping[str, Any]]) -> Path:
    """A file of these operations."""
    file = folder / "history.jsonl"
    file.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in ops))
    return file


def history(folder: Path, ops: Sequence[Mapping[str, Any]]) -> History:
    """What is read from a file of these operations."""
    facts = convert(written(folder, ops), folder, "transaction")
    return history_of(Rows(facts).operations(), file=facts.source)


def said(folder: Path, ops: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
    """The result of the checker, as `ackloss check --history` prints it."""
    checks = {"kafka": checker_of("kafka", options)}
    return judge_history(written(folder, ops), checks)


def names(result: Mapping[str, Any]) -> set[str]:
    """The names of the counter-examples."""
    return set(result["counter_examples"])
