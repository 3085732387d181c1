"""A project that was just started is waited for; one that has run for long is not."""

from __future__ import annotations

import socket
import time
from types import SimpleNamespace
from typing import Any

import pytest

from harness.clusters.compose import cluster
from harness.clusters.compose.cluster import ComposeCluster
from harness.errors import EnvironmentFailure
from harness.protocols import Member
from tests.harness.clusters.compose.test_matching import container, named


class Guest:
    """A cluster that answers the third question."""

    asked = 0

    def __init__(self, port: int) -> None:
        self.member = Member(
            name="b1", roles=frozenset({"broker"}), address=f"127.0.0.1:{port}", number=1
        )

    def members(self, plan: object, *, timeout_s: float) -> list[Member]:
        self.asked += 1
        if self.asked < 3:
            raise EnvironmentFailure("the cluster cannot be reached: no connection")
        return [self.member]


def starting(port: int, said: list[str]) -> Any:
    made: Any = ComposeCluster.__new__(ComposeCluster)
    made.named, made.guest, made.say = named(k_1={}), Guest(port), said.append
    made.order = SimpleNamespace(plan=None)
    return made


def test_a_project_that_was_just_started_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_RETRY_S", 0.01)
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        young = {"k-1": container("k-1", port, started_s=time.time() - 5)}
        (node,) = starting(port, said)._matched(young)
        assert node.name == "b1"
        why = "the cluster cannot be reached: no connection"
        assert said == [f"waiting for the project p: {why}"]
        old = {"k-1": container("k-1", port, started_s=time.time() - 3600)}
        with pytest.raises(EnvironmentFailure, match="cannot be reached"):
            starting(port, said)._matched(old)
    assert len(said) == 1
