"""Losses that a client of the user's has perhaps caused are named as such."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.judging.one_run import judge_run
from harness.protocols.runs import Conduct
from tests.fixtures.hand_made import Made, R, W

CLIENTS = {"clients": Conduct(command=("x",), software="lib 1", started=3).document()}


@pytest.mark.parametrize(
    ("writes", "clients", "named"),
    [
        ((W(1, offset=0), W(2)), CLIENTS, True),
        ((W(1, offset=0), W(2, offset=1)), CLIENTS, False),
        ((W(1, offset=0), W(2), W(3, offset=7)), CLIENTS, False),
        ((W(1, offset=0), W(2)), {}, False),
        ((W(1),), CLIENTS, False),
    ],
    ids=["no position", "a position", "one position", "our own client", "nothing lost"],
)
def test_what_a_client_acknowledged_without_a_position_may_never_have_been_sent(
    writes: tuple[W, ...], clients: dict[str, object], named: bool, tmp_path: Path
) -> None:
    run = Made(writes=writes, reads=[R(1)], run=clients).build(tmp_path, "r")
    document = judge_run(run)
    assert document["verdict"] == ("invalid" if len(writes) > 1 else "valid")
    cautions = [each for each in document["cautions"] if "acknowledged what it never sent" in each]
    assert bool(cautions) is named
    if named:
        assert cautions[0].startswith("no node has 1 write that the client acknowledged, each")
