"""The client lever: crashes a real client of the workload, and lets a new one take its place.

A crash is known by the kernel: no thread of the client that died is left in this process, and with
its threads went its connections. Which client is there now is known by its id.

Clients end with the process that plays the run. So where another process undoes what a journal
tells of, its clients never crashed: nothing is undone, and the probe says which client is there.

Token: {"node": "client-1", "fault", "client": 1, "at_once": false}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.levers.waiting import poll_until
from harness.protocols import Node, Proof, Token
from harness.protocols.crashes import ClientState, Crashes

_GONE_S = 5


@dataclass(frozen=True)
class ClientLever:
    """Crashes a real client; undone by a new one in its place."""

    clients: Crashes
    name: ClassVar[str] = "client"

    def apply(self, token: Token) -> None:
        """Crash the client that is there; once for each fault."""
        self.clients.crash(token["client"], token["fault"], at_once=token["at_once"])

    def undo(self, token: Token) -> None:
        """A new client takes the place unless another fault wants it empty."""
        self.clients.replace(token["client"], token["fault"])

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: the one that died is gone, and nobody, or at once another, is in its place.
        Undone: a client runs there that is not the one that died."""
        poll_until(lambda: _ended(self._state(token)), within_s=_GONE_S)
        state = self._state(token)
        proven = (_crashed if applied else _replaced)(state, token)
        return Proof(proven, [f"{token['node']}: {_told(state, token['fault'])}"])

    def leftover_state(self, node: Node) -> list[str]:  # noqa: ARG002
        """None: nothing of a client's crash is on any node."""
        return []

    def _state(self, token: Token) -> ClientState:
        return self.clients.state(token["client"], token["fault"])


def _ended(state: ClientState) -> bool:
    """Whether nothing is left of the client that died, if any did."""
    return state.death is None or state.death.died is None or state.death.gone


def _crashed(state: ClientState, token: Token) -> bool:
    death = state.death
    if death is None or death.died is None or not death.gone:
        return False
    if token["at_once"]:
        return death.successor is not None
    return state.alive is None


def _replaced(state: ClientState, token: Token) -> bool:
    if token["fault"] in state.kept_dead_by:
        return False
    died = state.death.died if state.death else None
    return (state.alive is not None and state.alive != died) or bool(state.kept_dead_by)


def _told(state: ClientState, fault: str) -> str:
    death, words = state.death, []
    if death is None:
        words.append("none crashed by this fault")
    elif death.died is None:
        words.append("no client was there to crash")
    else:
        left = "no thread or connection of it is left" if death.gone else "its threads still run"
        words.append(
            f"{death.died} crashed with {death.unknown} operations under way, unknown now; {left}"
        )
    words.append(f"{state.alive} is there" if state.alive else "no client is there")
    others = sorted(state.kept_dead_by - {fault})
    if others:
        words.append(f"kept dead by {', '.join(others)} too")
    return "; ".join(words)
