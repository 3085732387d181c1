"""Voters that come and go: who they may be, and the requests that Kafka's protocol has for it."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from targets.kafka.levers import check_members
from targets.kafka.messages import AddRaftVoterRequest, RemoveRaftVoterRequest

DIRECTORY = uuid.UUID(int=0x0102030405060708090A0B0C0D0E0F10)


def plan_of(level: int) -> Any:
    target = {"version": "4.4.0", "features": {"kraft.version": level}}
    fault = {"id": "f", "nemesis": "membership", "form": "remove", "nodes": "node:c1", "at_s": 1}
    return parse_plan({"schema": 1, "name": "p", "target": target, "faults": [fault]})


def test_only_voters_of_a_quorum_that_can_change_are_removed() -> None:
    check_members(plan_of(1))
    with pytest.raises(PlanError, match="the voters of this quorum cannot be changed") as refused:
        check_members(plan_of(0))
    assert refused.value.exit_code == 4
    assert refused.value.hint == 'set target.features."kraft.version" = 1 (Kafka 3.9 or later)'


@pytest.mark.parametrize(
    ("request_of", "fields"),
    [
        (
            AddRaftVoterRequest(
                version=0,
                cluster_id=None,
                timeout_ms=5000,
                voter_id=101,
                voter_directory_id=DIRECTORY,
                listeners=[AddRaftVoterRequest.Listener(name="C", host="h", port=9093)],
            ),
            b"\x00\x00\x00\x13\x88\x00\x00\x00\x65" + DIRECTORY.bytes + b"\x02\x02C\x02h\x23\x85",
        ),
        (
            RemoveRaftVoterRequest(
                version=0, cluster_id=None, voter_id=101, voter_directory_id=DIRECTORY
            ),
            b"\x00\x00\x00\x00\x65" + DIRECTORY.bytes,
        ),
    ],
)
def test_requests_are_those_of_the_protocol(request_of: Any, fields: bytes) -> None:
    """By the documents of KIP-853: compact arrays and strings, then tagged fields."""
    assert bytes(request_of.encode()).rstrip(b"\x00") == fields
    assert request_of.API_KEY in (80, 81)
