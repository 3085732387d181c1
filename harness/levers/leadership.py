"""The leadership lever: has the target's leaders moved, as planned work does it.

A move gives partitions their replicas in another order, the leader last, and then asks for the
election of the preferred leaders: so another in-sync replica leads and no data moves. Undone, the
leader of before leads again and the order is as it was; one that is not in the ISR by then cannot,
which the evidence says. A plain election changes no order, so there is nothing to undo.

How the partitions stood is looked up before the act and is in the token, which is one for all nodes
of a fault. A partition whose order another fault has changed since is left to that one: faults that
move the same partition must not overlap, or the earlier is not proven.

Token: {"node": "b1" (or "b1,b2"), "form": "move" | "elect"}, and by `look` {"partitions":
[{"partition": 0, "leader": "b1", "epoch": 3, "before": ["b1", "b2"], "wanted": ["b2", "b1"]}],
"unseen": null or why nothing was found}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.errors import AcklossError, HarnessFailure
from harness.levers.waiting import poll_until
from harness.protocols import Node, PartitionView, Proof, Token
from harness.protocols.leadership import Leadership

_SEEN_S = 5


@dataclass(frozen=True)
class LeadershipLever:
    """Moves leaders by reassignment or election; undone by moving them back."""

    leadership: Leadership
    name: ClassVar[str] = "leadership"

    def look(self, token: Token) -> Token:
        """The token with the partitions concerned, as they stand and as they are to become."""
        try:
            placements = self.leadership.placements()
        except AcklossError as error:
            return {**token, "partitions": [], "unseen": str(error)}
        chosen = token["node"].split(",")
        moves = token["form"] == "move"
        concerned = [
            {
                "partition": view.partition,
                "leader": view.leader,
                "epoch": view.leader_epoch,
                "before": list(view.replicas),
                "wanted": _away(view, chosen) if moves else list(view.replicas),
            }
            for view in placements.values()
            if (view.leader if moves else view.replicas[0]) in chosen
        ]
        return {**token, "partitions": concerned, "unseen": None}

    def apply(self, token: Token) -> None:
        """Ask for the order that is wanted, then for the election."""
        if token["unseen"] is not None:
            raise HarnessFailure(token["unseen"])
        if not token["partitions"]:
            return  # the probe says so
        wanted = {p["partition"]: p["wanted"] for p in token["partitions"]}
        if token["form"] == "move":
            self.leadership.reorder(wanted)
        if refused := self.leadership.elect(list(wanted)):
            told = ", ".join(f"partition {number}: {why}" for number, why in refused.items())
            raise HarnessFailure(f"the election was refused: {told}")

    def undo(self, token: Token) -> None:
        """Have the leader of before lead, where it can, then put the order back."""
        if token["form"] != "move":
            return
        now = self.leadership.placements()
        ours = [p for p in token["partitions"] if _is_ours(p, now.get(p["partition"]))]
        orders = {p["partition"]: list(now[p["partition"]].replicas) for p in ours}
        led = [p for p in ours if now[p["partition"]].leader != p["leader"]]
        if led:
            self._reorder(orders, {p["partition"]: _leading_first(p) for p in led})
            self.leadership.elect([p["partition"] for p in led])
        self._reorder(orders, {p["partition"]: p["before"] for p in ours})

    def _reorder(self, orders: dict[int, list[str]], wanted: Mapping[int, list[str]]) -> None:
        """Ask for what differs from the orders so far, and note it there."""
        due = {n: order for n, order in wanted.items() if orders[n] != order}
        if due:
            self.leadership.reorder(due)
            orders.update(due)

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: every preferred leader leads, in the order that was wanted, and leaders have
        changed. Undone: as before; after a plain election, every partition has a leader."""
        shows = _in_force if applied else _as_before
        proof = Proof(False, [_nothing(token)])

        def seen() -> bool:
            nonlocal proof
            proof = shows(token, self.leadership.placements())
            return proof.proven

        if token["partitions"]:
            poll_until(seen, within_s=_SEEN_S)
        return proof

    def leftover_state(self, node: Node) -> list[str]:  # noqa: ARG002
        """Nothing: wherever leaders are, a cluster is whole."""
        return []


def _away(view: PartitionView, chosen: Sequence[str]) -> list[str]:
    """The replicas with an in-sync one that was not chosen in front and the leader last; as they
    are when there is none."""
    others = [name for name in view.replicas if name != view.leader]
    able = [name for name in others if name in view.isr and name not in chosen]
    if not able or view.leader is None:
        return list(view.replicas)
    return [*able, *(name for name in others if name not in able), view.leader]


def _leading_first(asked: Mapping[str, Any]) -> list[str]:
    """The order of before, with the leader of before as the preferred one."""
    return [asked["leader"], *(name for name in asked["before"] if name != asked["leader"])]


def _is_ours(asked: Mapping[str, Any], now: PartitionView | None) -> bool:
    """Whether the order is one that this fault found or made."""
    orders = (asked["before"], asked["wanted"], _leading_first(asked))
    return now is not None and list(now.replicas) in orders


def _nothing(token: Token) -> str:
    if token["unseen"] is not None:
        return f"{token['node']}: {token['unseen']}"
    what = "leads" if token["form"] == "move" else "is the preferred leader of"
    return f"{token['node']}: {what} no partition: nothing to move"


def _in_force(token: Token, now: Mapping[int, PartitionView]) -> Proof:
    evidence, changed, as_wanted = [], [], []
    for asked in token["partitions"]:
        view = now.get(asked["partition"])
        leader = view.leader if view else None
        changed.append(leader not in (None, asked["leader"]))
        as_wanted.append(leader == asked["wanted"][0] and _order(view) == asked["wanted"])
        before = f"led by {asked['leader']} (epoch {asked['epoch']}, {_told(asked['before'])})"
        evidence.append(f"partition {asked['partition']}: {before} before, {_led(view)} now")
    if not any(changed):
        evidence.append("no leader has changed")
    enough = all(changed) if token["form"] == "move" else any(changed)
    return Proof(all(as_wanted) and enough, evidence)


def _as_before(token: Token, now: Mapping[int, PartitionView]) -> Proof:
    evidence, proven = [], True
    for asked in token["partitions"]:
        view = now.get(asked["partition"])
        told = f"partition {asked['partition']}: {_led(view)}"
        if token["form"] == "move":
            again = view is not None and view.leader == asked["leader"]
            again = again and _order(view) == asked["before"]
            told += " again" if again else f", not as before: {_why(asked, view)}"
            proven = proven and again
        else:
            proven = proven and view is not None and view.leader is not None
        evidence.append(told)
    return Proof(proven, evidence)


def _why(asked: Mapping[str, Any], view: PartitionView | None) -> str:
    if view is None or _order(view) != asked["before"]:
        return f"{_told(asked['before'])} are not back"
    in_sync = "is" if asked["leader"] in view.isr else "is not"
    return f"{asked['leader']} {in_sync} in the ISR"


def _led(view: PartitionView | None) -> str:
    if view is None:
        return "unknown"
    return f"led by {view.leader} (epoch {view.leader_epoch}, {_told(view.replicas)})"


def _order(view: PartitionView | None) -> list[str]:
    return list(view.replicas) if view else []


def _told(replicas: Sequence[str]) -> str:
    return f"replicas {','.join(replicas)}"
