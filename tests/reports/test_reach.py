"""Who could reach whom in a fault's window, from its journal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from reports.run_view import Reach, reaches

PEERS = [{"name": "b1"}, {"name": "c1"}]


def picture(path: Path, *acts: tuple[str, dict[str, Any]], done: bool = True) -> Reach | None:
    lines: list[dict[str, Any]] = []
    for n, (lever, token) in enumerate(acts):
        lines.append({"type": "intent", "n": n, "fault": "cut", "lever": lever, "token": token})
        lines += [{"type": "done", "n": n}] if done else []
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return reaches(path, ["b1", "b2", "b3", "c1"]).get("cut")


@pytest.mark.parametrize(
    ("token", "links", "words"),
    [
        ({}, {"cut": 2, "whole": 4}, "b2 and b1, c1 do not reach each other"),
        ({"direction": "in", "ports": [9092]}, {"one-way": 2, "whole": 4},
         "b2 hears nothing from b1, c1 (port 9092)"),
        ({"direction": "out"}, {"one-way": 2, "whole": 4}, "b2 does not reach b1, c1"),
    ],
)  # fmt: skip
def test_what_was_cut_is_drawn(
    tmp_path: Path, token: dict[str, Any], links: dict[str, int], words: str
) -> None:
    found = picture(tmp_path / "faults", ("net", {"node": "b2", "peers": PEERS, **token}))
    assert found is not None
    assert Counter(link.kind for link in found.links) == links
    assert found.words == words


def test_long_names_have_room(tmp_path: Path) -> None:
    def spare(name: str) -> float:
        found = picture(tmp_path / "faults", ("net", {"node": name, "peers": PEERS}))
        assert found is not None
        return found.spare

    assert spare("b2") == 0
    assert spare("zookeeper-of-group-2") > 50


def test_both_ways_cut_by_two_acts_are_one_cut(tmp_path: Path) -> None:
    halves: Sequence[tuple[str, dict[str, Any]]] = [
        ("net", {"node": "b2", "peers": PEERS[:1], "direction": way}) for way in ("in", "out")
    ]
    found = picture(tmp_path / "faults", *halves)
    assert found is not None
    assert [link.kind for link in found.links if link.kind != "whole"] == ["cut"]


def test_nodes_that_were_stopped(tmp_path: Path) -> None:
    found = picture(tmp_path / "faults", ("process", {"node": "b3"}), ("pause", {"node": "b1"}))
    assert found is not None
    states = {dot.name: dot.state for dot in found.dots}
    assert states == {"b1": "paused", "b2": "", "b3": "down", "c1": ""}
    assert {link.kind for link in found.links} == {"whole"}


def test_what_cut_nothing_has_no_picture(tmp_path: Path) -> None:
    lossy = ("net", {"node": "b2", "peers": PEERS, "share": 0.3})
    assert picture(tmp_path / "a", lossy) is None
    assert picture(tmp_path / "b", ("clock", {"node": "b2"})) is None
    assert picture(tmp_path / "c", ("net", {"node": "b2", "peers": PEERS}), done=False) is None
