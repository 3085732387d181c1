"""The members lever: takes controllers out of the set of voters, and back in (KIP-853, 3.9).

A controller that is taken out keeps running, without a vote; its directory id, by which the others
know it, is in the undo record. Requests go to one controller after the other until the active one
has answered; a request that is repeated changes nothing.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from kafka.errors import for_code
from kafka.protocol.admin import DescribeQuorumRequest
from kafka.protocol.api_message import ApiMessage

from harness.errors import HarnessFailure, PlanError
from harness.faults.own_traffic import NoAnswer
from harness.faults.records import MembersRecord
from harness.levers.commands import poll_until
from harness.protocols import Lever, Node, Proof, UndoRecord
from targets.kafka import kraft
from targets.kafka.brokers import ask
from targets.kafka.configuration import CONTROLLER_PORT, node_ids
from targets.kafka.plan import KafkaPlan

_ASK_S: Final = 5.0
_SEEN_S: Final = 10
_WITHIN_S: Final = 25.0
_AGAIN_S: Final = 0.3
_THERE, _GONE = 126, 127
"""DUPLICATE_VOTER, VOTER_NOT_FOUND: nothing is left to do."""
_LATER: Final = frozenset({3, 5, 6, 7, 41})
"""No leader yet, another one, or not yet: a change is not committed, or the voter is behind."""

_HERE: Final = "targets.kafka.messages"


class AddRaftVoterRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg, misc]
    """Makes a replica a voter."""


class AddRaftVoterResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg, misc]
    """Whether it is one."""


class RemoveRaftVoterRequest(ApiMessage, load_json=_HERE):  # type: ignore[call-arg, misc]
    """Takes a voter out."""


class RemoveRaftVoterResponse(ApiMessage, load_json=_HERE):  # type: ignore[call-arg, misc]
    """Whether it is none."""


@dataclass(frozen=True)
class MembersLever(Lever[MembersRecord]):
    """Removes voters from the quorum of controllers; undone by adding them again."""

    nodes: Mapping[str, Node]
    plan: KafkaPlan
    name: ClassVar[str] = "members"
    record_type: ClassVar[type[UndoRecord]] = MembersRecord

    def capture_prior_state(self, record: MembersRecord) -> MembersRecord:
        """The chosen voters, with their directory ids."""
        try:
            voters = self._voters()
        except NoAnswer as error:
            return replace(record, unseen=str(error))
        chosen = [(name, voters.get(self._number(name))) for name in record.node.split(",")]
        return replace(record, entries=tuple(f"{name}:{has}" for name, has in chosen if has))

    def apply(self, record: MembersRecord) -> None:
        """Remove one after the other: a quorum changes by one voter at a time."""
        if record.unseen is not None:
            raise HarnessFailure(record.unseen)
        for name, directory in _entries(record):
            request = RemoveRaftVoterRequest(
                version=0,
                cluster_id=None,
                voter_id=self._number(name),
                voter_directory_id=directory,
            )
            self._request(request, done=_GONE, what=f"remove {name}")

    def undo(self, record: MembersRecord) -> None:
        """Add those that are none."""
        listener = AddRaftVoterRequest.Listener
        for name, directory in _entries(record):
            at = listener(name="CONTROLLER", host=self.nodes[name].address, port=CONTROLLER_PORT)
            request = AddRaftVoterRequest(
                version=0,
                cluster_id=None,
                timeout_ms=round(_ASK_S * 1000),
                voter_id=self._number(name),
                voter_directory_id=directory,
                listeners=[at],
            )
            self._request(request, done=_THERE, what=f"add {name}")

    def probe(self, record: MembersRecord, *, applied: bool) -> Proof:
        """Whether the active controller no longer counts them among the voters, or does again."""
        numbers = {self._number(name) for name, _ in _entries(record)}
        shown: list[int] = []

        def seen() -> bool:
            try:
                shown[:] = sorted(self._voters())
            except NoAnswer:
                return False
            return numbers.isdisjoint(shown) if applied else numbers <= {*shown}

        proven = poll_until(seen, within_s=_SEEN_S) and bool(numbers)
        names = {number: name for name, number in node_ids(self.plan).items()}
        voters = ", ".join(names.get(number, str(number)) for number in shown)
        return Proof(proven, [f"{record.node}: the voters are {voters or 'not known'}"])

    def _number(self, name: str) -> int:
        return node_ids(self.plan)[name]

    def _voters(self) -> dict[int, uuid.UUID]:
        """The directory ids of the voters by number, as the active controller reports them. Raises
        NoAnswer."""
        partition = DescribeQuorumRequest.TopicData.PartitionData(partition_index=0)
        topic = DescribeQuorumRequest.TopicData(
            topic_name=kraft.METADATA_TOPIC, partitions=[partition]
        )

        def voters(answer: Any) -> dict[int, uuid.UUID] | None:
            found = answer.topics[0].partitions[0] if answer.topics else None
            if found is None or found.error_code:
                return None
            return {each.replica_id: each.replica_directory_id for each in found.current_voters}

        found: dict[int, uuid.UUID] = self._asked(DescribeQuorumRequest[2](topics=[topic]), voters)
        return found

    def _request(self, request: Any, *, done: int, what: str) -> None:
        deadline, why = time.monotonic() + _WITHIN_S, ""

        def accepted(answer: Any) -> bool | None:
            nonlocal why
            code = answer.error_code
            if code in (0, done):
                return True
            why = f"{for_code(code).__name__}: {answer.error_message}"
            return None if code in _LATER else False

        while time.monotonic() < deadline:
            try:
                if self._asked(request, accepted):
                    return
                raise HarnessFailure(f"the request was refused: {what}: {why}")
            except NoAnswer as error:  # a leader that is removed resigns
                why = why or str(error)
            time.sleep(_AGAIN_S)
        raise HarnessFailure(f"it was not done within {_WITHIN_S:g} s: {what}: {why}")

    def _asked(self, request: Any, use: Callable[[Any], Any]) -> Any:
        """What the first controller answers that is of use. Raises NoAnswer when none does."""
        why = "no controller is active"
        for node in self.nodes.values():
            if "controller" in node.roles:
                try:
                    answer = ask(node.address, CONTROLLER_PORT, request, timeout_s=_ASK_S)
                except NoAnswer as error:
                    why = str(error)
                    continue
                if (used := use(answer)) is not None:
                    return used
        raise NoAnswer(why)


def check_members(plan: KafkaPlan) -> None:
    """Refuse to remove voters from a quorum that cannot be changed."""
    for key, options in plan.faults_of("membership"):
        if options.get("form") == "remove" and not kraft.can_change(plan):
            raise PlanError(
                "the voters of this quorum cannot be changed",
                key=f"{key}.form",
                hint=f'set target.features."{kraft.FEATURE}" = 1 (Kafka 3.9 or later)',
            )


def _entries(record: MembersRecord) -> Sequence[tuple[str, uuid.UUID]]:
    """The names of the removed voters, with their directory ids."""
    pairs = (entry.split(":", 1) for entry in record.entries)
    return [(name, uuid.UUID(directory)) for name, directory in pairs]
