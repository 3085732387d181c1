"""Who could reach whom while a fault was in force, as a small picture: the nodes of the run in a
circle, the links that the fault cut, and the nodes that it stopped. As its journal states it: what
was undone before the fault's end is drawn too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import cos, pi, sin
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.faults.journal import entries

WIDTH: Final = 220
HEIGHT: Final = 150
RADIUS: Final = 46
_OUTSIDE: Final = 19
"""From a dot to its name."""
_MOST: Final = 12
"""Nodes that a circle holds; of more only those that the fault is about are drawn."""
_STOPPED: Final = {"process": "down", "power": "down", "pause": "paused"}
"""What levers do to a whole node."""


class Dot(NamedTuple):
    name: str
    x: float
    y: float
    label_x: float
    label_y: float
    anchor: str
    state: str


class Link(NamedTuple):
    """From one dot to another: `cut`: not at all, or not `one way`, or `whole`."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: str


@dataclass(frozen=True)
class Reach:
    """The picture of one fault, and its words."""

    dots: Sequence[Dot]
    links: Sequence[Link]
    words: str


def reaches(journal: Path, nodes: Sequence[str]) -> dict[str, Reach]:
    """The picture of each fault that cut links or stopped nodes; none of other faults. Raises
    HistoryError."""
    acts: dict[Any, Mapping[str, Any]] = {}
    done: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries(journal):
        if entry["type"] == "intent":
            acts[entry["n"]] = entry
        elif entry["type"] == "done" and (act := acts.get(entry["n"])) is not None:
            done.setdefault(act["fault"], []).append(act)
    found = {fault: _reach(every, nodes) for fault, every in done.items()}
    return {fault: reach for fault, reach in found.items() if reach is not None}


def _reach(acts: Sequence[Mapping[str, Any]], nodes: Sequence[str]) -> Reach | None:
    unheard: dict[tuple[str, str], None] = {}
    stopped: dict[str, str] = {}
    words: dict[str, None] = {}
    for act in acts:
        token = act.get("token") or {}
        names = str(token.get("node", "")).split(",")
        if state := _STOPPED.get(act["lever"]):
            stopped |= dict.fromkeys(names, state)
        elif act["lever"] == "net" and token.get("share", 1.0) == 1.0:
            node, peers = names[0], [str(peer["name"]) for peer in token["peers"]]
            direction = token.get("direction", "both")
            for peer in peers:
                unheard |= dict.fromkeys([(peer, node)] if direction != "out" else [])
                unheard |= dict.fromkeys([(node, peer)] if direction != "in" else [])
            ports = ", ".join(str(port) for port in token.get("ports") or ())
            words[_said(node, ", ".join(peers), direction) + (f" (port {ports})" * bool(ports))] = (
                None
            )
    if not unheard and not stopped:
        return None
    words |= {f"{node} is {state}": None for node, state in stopped.items()}
    concerned = [*(name for pair in unheard for name in pair), *stopped]
    every = list(dict.fromkeys([*nodes, *concerned]))
    shown = every if len(every) <= _MOST else list(dict.fromkeys(concerned))
    dots = {name: _dot(name, at, len(shown), stopped) for at, name in enumerate(shown)}
    return Reach(list(dots.values()), _links(dots, unheard), "; ".join(words))


def _said(node: str, peers: str, direction: str) -> str:
    if direction == "both":
        return f"{node} and {peers} do not reach each other"
    return (
        f"{node} hears nothing from {peers}"
        if direction == "in"
        else (f"{node} does not reach {peers}")
    )


def _dot(name: str, at: int, of: int, stopped: Mapping[str, str]) -> Dot:
    angle = 2 * pi * at / of - pi / 2 if of != 2 else pi * at + pi
    across, down = cos(angle), sin(angle)
    x, y = WIDTH / 2, HEIGHT / 2
    anchor = "middle" if abs(across) < 0.3 else "start" if across > 0 else "end"
    far = RADIUS + _OUTSIDE
    return Dot(
        name=name,
        x=round(x + RADIUS * across, 1),
        y=round(y + RADIUS * down, 1),
        label_x=round(x + (far - 6 * (anchor != "middle")) * across, 1),
        label_y=round(y + far * down + 4, 1),
        anchor=anchor,
        state=stopped.get(name, ""),
    )


def _links(dots: Mapping[str, Dot], unheard: Mapping[tuple[str, str], None]) -> list[Link]:
    """One link for each pair; one that is cut one way ends at the dot that does not hear."""
    found = []
    for a, b in combinations(dots, 2):
        ways = [(a, b) in unheard, (b, a) in unheard]
        kind = ("whole", "one-way", "cut")[sum(ways)]
        first, second = (b, a) if ways == [False, True] else (a, b)
        ends = (dots[first].x, dots[first].y, dots[second].x, dots[second].y)
        found.append(Link(*ends, kind))
    return sorted(found, key=lambda link: link.kind != "whole")
