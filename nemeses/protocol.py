"""Faults of single requests and answers: between clients and a node, or between nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field, NonNegativeInt

from harness.faults import selectors
from harness.faults.records import CLIENTS, Peer, ProtocolAct, ProtocolRecord
from harness.protocols import CLIENT_ROLE, Act, Nemesis, Node, Select

_ANYBODY = "anybody"
_ANY = "any"


@dataclass(frozen=True, kw_only=True)
class Protocol(Nemesis):
    """Drop, delay, reset, repeat or reject requests to the chosen nodes, or their responses.

    From its start every node of such a plan has a proxy, which forwards what no rule matches.

    act          count: pass them on; drop: nothing more passes on the connection; delay: by
                 `delay_ms`; reset: the connection instead; error: answer with `code`; duplicate:
                 send the request twice, the second time on a separate connection
    side         request: before it reaches the node; answer: after the node has executed it.
                 Default: request for count and duplicate, answer for the others
    api          the API, by the system's own name (or a list of names); any: every API
    client_id    only requests of clients whose ID begins with it
    topic        only requests that concern it, if the system has topics
    path         only requests that concern it or anything below it, if the system has paths
    peers        who sends the requests: anybody, clients, or a selector of the nodes
    met_share    the share of the matching messages that is affected, drawn at random
    first_count  only the first N matching messages at each node; 0: all
    delay_ms     for delay: how long; 0: until healed
    code         for error: its name in the system
    """

    plugin: ClassVar[str] = "protocol"

    act: ProtocolAct = "reset"
    side: Literal["request", "answer"] | None = None
    api: str | tuple[str, ...] = _ANY
    client_id: str = ""
    topic: str = ""
    path: str = ""
    peers: str = _ANYBODY
    met_share: Annotated[float, Field(gt=0, le=1)] = 1.0
    first_count: NonNegativeInt = 0
    delay_ms: Annotated[int, Field(ge=0, le=3_600_000)] = 0
    code: str = ""

    def __post_init__(self) -> None:
        if self.delay_ms and self.act != "delay":
            raise ValueError(f"delay_ms is of a delay: leave it out of act = {self.act!r}")
        if bool(self.code) != (self.act == "error"):
            raise ValueError("code names the error of act = 'error', which needs one")
        if self.act == "duplicate" and self.side == "answer":
            raise ValueError("requests are sent twice, not answers: leave out side")
        if self.peers not in (_ANYBODY, CLIENTS):
            selectors.check_grammar(self.peers, key="peers")
        if any("\n" in text or "," in text for text in (self.client_id, self.topic, self.path)):
            raise ValueError("client_id, topic and path are one word each")
        if self.path and (self.path[0] != "/" or self.path != "/" + self.path.strip("/")):
            raise ValueError("path begins with / and does not end with it, such as /a/b")

    @property
    def apis(self) -> tuple[str, ...]:
        """The names of what is met; none: everything."""
        names = (self.api,) if isinstance(self.api, str) else self.api
        return () if names == (_ANY,) else names

    @property
    def selectors(self) -> dict[str, str]:
        return {} if self.peers in (_ANYBODY, CLIENTS) else {"peers": self.peers}

    def requires(self, node: str) -> list[Act]:
        return [self._act(node)]

    def acts(self, nodes: Sequence[Node], select: Select) -> list[Act]:
        peers: list[Peer] = []
        others: list[Peer] = []
        if self.peers == CLIENTS:  # any peer that is not a node of the system
            holding = {node.name for node in select(f"role:{CLIENT_ROLE}")}
            others = [_peer(node) for node in select("all") if node.name not in holding]
        elif self.peers != _ANYBODY:
            peers = [_peer(node) for node in select(self.peers)]
            if not peers:
                return []
        return [self._act(node.name, peers, others) for node in nodes]

    def _act(self, node: str, peers: Sequence[Peer] = (), others: Sequence[Peer] = ()) -> Act:
        before = self.act in ("count", "duplicate")
        record = ProtocolRecord(
            node=node,
            act=self.act,
            side=self.side or ("request" if before else "answer"),
            apis=self.apis,
            client_id=self.client_id,
            topic=self.topic,
            below=self.path,
            peers=tuple(peers),
            others=tuple(others),
            share=self.met_share,
            first=self.first_count,
            ms=self.delay_ms,
            code=self.code,
        )
        return Act("protocol", record)


def _peer(node: Node) -> Peer:
    return Peer(name=node.name, address=node.address)
