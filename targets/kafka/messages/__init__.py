"""Requests of Kafka's, and records of KRaft's log of metadata, that kafka-python does not have, as
JSON schemas."""

from __future__ import annotations

from kafka.protocol.api_data import ApiData
from kafka.protocol.api_message import ApiMessage


class AddRaftVoterRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Makes a replica a voter."""


class AddRaftVoterResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Whether it is one."""


class RemoveRaftVoterRequest(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Takes a voter out."""


class RemoveRaftVoterResponse(ApiMessage, load_json=__name__):  # type: ignore[call-arg, misc]
    """Whether it is none."""


class TopicRecord(ApiData, load_json=__name__):  # type: ignore[call-arg, misc]
    """A topic is made."""


class PartitionRecord(ApiData, load_json=__name__):  # type: ignore[call-arg, misc]
    """A partition is made."""


class PartitionChangeRecord(ApiData, load_json=__name__):  # type: ignore[call-arg, misc]
    """A partition is changed: what is not stated stays as it is."""
