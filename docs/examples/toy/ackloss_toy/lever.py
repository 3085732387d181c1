"""A lever that only the toy store has: how a server acknowledges is changed while it runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from ackloss.plugins import HarnessFailure, Lever, Node, Proof, UndoRecord
from ackloss_toy.connection import asked_once

TOY_MODE = "toy-mode"


@dataclass(frozen=True, kw_only=True)
class ModeRecord(UndoRecord):
    """A server acknowledges in this mode. Captured before: the mode that it had, if it answered."""

    mode: Literal["stored", "received"]
    before: Literal["stored", "received"] | None = None


@dataclass(frozen=True)
class ModeLever(Lever[ModeRecord]):
    """Changes what is acknowledged, by a request to the server; undone by another one."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = TOY_MODE

    def unavailable(self, node: Node, record: ModeRecord) -> str | None:
        """It can be done on every server."""
        return None

    def capture_prior_state(self, record: ModeRecord) -> ModeRecord:
        """The mode that it has."""
        return replace(record, before=mode_of(self.nodes[record.node]))

    def apply(self, record: ModeRecord) -> None:
        """Request the mode."""
        self._request(self.nodes[record.node], record.mode)

    def undo(self, record: ModeRecord) -> None:
        """Request the mode of before."""
        if record.before is not None:
            self._request(self.nodes[record.node], record.before)

    def probe(self, record: ModeRecord, *, applied: bool) -> Proof:
        """Whether the server reports the mode. It acts on the system itself: `met` is None."""
        mode, wanted = mode_of(self.nodes[record.node]), record.mode if applied else record.before
        return Proof(
            mode is not None and mode == wanted, [f"{record.node}: acknowledges what is {mode}"]
        )

    def leftover_state(self, node: Node) -> list[str]:
        """Nothing: every mode is one that a plan may request."""
        return []

    def _request(self, node: Node, mode: str) -> None:
        try:
            asked_once(node.address, {"mode": mode})
        except OSError as error:
            raise HarnessFailure(f"{node.name} does not answer: {error}") from error


def mode_of(node: Node) -> Literal["stored", "received"] | None:
    """The mode of a server; `None` if it does not answer."""
    try:
        mode = asked_once(node.address, {"mode": None})["mode"]
    except OSError:
        return None
    return "stored" if mode == "stored" else "received"
