"""Faults that an operator causes: where ackloss has no rights, or no lever for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from harness.faults.records import ManualRecord
from harness.protocols import Act, Nemesis, Node, Select

_MOST_CHARACTERS = 500


@dataclass(frozen=True, kw_only=True)
class Manual(Nemesis):
    """An operator makes the fault and undoes it: the run prints the instruction and waits.

    The fault is claimed, not proven: without a loss the verdict is `unknown`. The load continues
    while the run waits.

    instruction       what the operator should do; the chosen nodes are shown with it
    undo_instruction  what the operator should do when the fault is healed
    at_most_s         how long to wait for each of the two
    """

    plugin: ClassVar[str] = "manual"

    instruction: str = "make the fault now"
    undo_instruction: str = "undo the fault now"
    at_most_s: Annotated[float, Field(gt=0, le=3600)] = 300.0

    def __post_init__(self) -> None:
        for name in ("instruction", "undo_instruction"):
            text = getattr(self, name)
            if not text.strip() or len(text) > _MOST_CHARACTERS or not text.isprintable():
                raise ValueError(
                    f"{name} is one line of text, of at most {_MOST_CHARACTERS} characters"
                )

    def requires(self, node: str) -> list[Act]:
        return [Act("manual", self._record(node, ()))]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        """One act for all nodes: the operator acts once."""
        if not nodes:
            return []
        names = ",".join(node.name for node in nodes)
        return [Act("manual", self._record(names, [f"{n.name}: {n.address}" for n in nodes]))]

    def _record(self, node: str, places: Sequence[str]) -> ManualRecord:
        return ManualRecord(
            node=node,
            instruction=self.instruction,
            undo_instruction=self.undo_instruction,
            at_most_s=self.at_most_s,
            places=tuple(places),
        )
