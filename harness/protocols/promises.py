"""What a system promises the writes of one run."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Promises:
    """What a target's settings promise the operations of a run: what checkers hold it to.

    model         the name of the operations' model (`harness.models`)
    acknowledges  an `ok` acknowledges a write; where false it says only that the write was sent
    once          a write is stored at most once, however often its client sends it
    deletes       the plan lets the system delete what it acknowledged (retention, clocks)
    partitions    how many logs the values are spread over, numbered from 0
    replicas      how many replicas of each are in sync when all are
    clients       how many real clients the processes share
    readers_are_replicas  each reader of the final read reads its own replica: two complete
                  ones that differ contradict the system, and not a client library
    """

    model: str = "log"
    acknowledges: bool = True
    once: bool = False
    deletes: bool = False
    partitions: int = 1
    replicas: int = 1
    clients: int = 1
    readers_are_replicas: bool = False

    def document(self) -> dict[str, Any]:
        """As run.json holds it."""
        return asdict(self)

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """From run.json; fields of later versions are ignored. Raises TypeError for a value of
        another type, ValueError for a number of nothing: all of no replicas are always in sync."""
        if document.get("isolated") is False:
            raise ValueError("promises.isolated is false, which earlier versions judged")
        known = {field.name: field for field in fields(cls)}
        given = {name: value for name, value in document.items() if name in known}
        for name, value in given.items():
            default = known[name].default
            if type(value) is not type(default):
                raise TypeError(f"promises.{name} is {value!r}")
            if type(value) is int and value < 1:
                raise ValueError(f"promises.{name} is {value}")
        return cls(**given)
