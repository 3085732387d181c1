"""What operations mean, model by model: their functions, and which of them write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Model:
    """A vocabulary of operations that a workload uses, a target serves and a checker judges.

    functions   the names that an operation's `f` may have
    writes      those that change the system: an `ok` acknowledges one
    final_read  whether a run ends with everything that the system holds being read back
    check       the checker that judges a run whose plan names none
    """

    name: str
    functions: frozenset[str]
    writes: frozenset[str]
    final_read: bool
    check: str


APPEND: Final = "append"

LOG: Final = Model(
    name="log",
    functions=frozenset({APPEND}),
    writes=frozenset({APPEND}),
    final_read=True,
    check="loss",
)
"""Values appended to partitions, each unique under its key; the final read returns all of them."""

REGISTER: Final = Model(
    name="register",
    functions=frozenset({"read", "write", "cas"}),
    writes=frozenset({"write", "cas"}),
    final_read=False,
    check="register",
)
"""One value a key: `read` returns it in `result`, `write` sets `value`, `cas` sets `value` where
`expected` stands."""

SET: Final = Model(
    name="set",
    functions=frozenset({"add", "read"}),
    writes=frozenset({"add"}),
    final_read=False,
    check="set",
)
"""`add` puts a unique `value` into one set, `read` returns all of it in `elements`."""

MODELS: Final = {model.name: model for model in (LOG, REGISTER, SET)}
