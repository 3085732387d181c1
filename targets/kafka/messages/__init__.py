"""Requests of Kafka's that kafka-python does not have, as JSON schemas."""

from __future__ import annotations

from kafka.protocol.api_message import ApiMessage


class AddRaftVoterRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Makes a replica a voter."""


class AddRaftVoterResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Whether it is one."""


class RemoveRaftVoterRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Takes a voter out."""


class RemoveRaftVoterResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Whether it is none."""
