"""Kafka that keeps its own metadata: a quorum of controllers (KIP-500). Its nodes and their files,
how it is queried and changed (the functions of `targets.kafka.modes.Mode`), and what a node leaves
of the quorum.

A node leaves its metadata log, its vote, and each state that it logged. Kafka logs every change of
a replica's state, `Completed transition to STATE from STATE`, and before that stores its epoch and
vote in `quorum-state`. So the logs of all lives of a process show the votes that an overwritten
file no longer has. Brokers replicate the metadata log without a vote.
"""

from __future__ import annotations

import base64
import re
import struct
import time
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, Final

import orjson
from crc32c import crc32c

from harness.errors import HarnessFailure, PlanError
from harness.faults.own_traffic import NoAnswer
from harness.history.quorum import QuorumBatch, QuorumMember, QuorumState, quorum_document
from harness.images.keeping import Say
from harness.images.recipe import FILES
from harness.protocols import (
    STORED,
    Cluster,
    ImageRef,
    Ingredients,
    Node,
    NodeSpec,
    NodeView,
    with_role,
)
from harness.servers import await_none, properties, setting_text
from targets.kafka import brokers, wire
from targets.kafka.brokers import LEADERS_S, Leadership, ask, ask_of, error_name
from targets.kafka.configuration import (
    BROKER_PORT,
    CONTROLLER_PORT,
    DATA,
    assignment,
    node_ids,
    node_spec,
    of_commits,
    rack_of,
)
from targets.kafka.jars import is_jars
from targets.kafka.metadata_log import BYTES_AT_MOST, KEPT_AS
from targets.kafka.plan import KafkaPlan
from targets.kafka.record_sets import (
    BATCH,
    CHECKED_AT,
    CONTROL,
    NotARecord,
    batches,
    format_at,
    marker,
)
from targets.kafka.versions import DEFAULT_VERSION, FIRST_SNAPSHOT, ReleaseLine, release_line

# Who the controllers are: named in every node's file, or voters of a quorum that can change.
#
# With the feature `kraft.version` at 1 (KIP-853, from 3.9 on) the voters are records of the
# metadata log itself. Each controller begins with the same first snapshot of that log, which the
# version's own StorageTool writes for the addresses and directories of this cluster: a JVM of
# some seconds.

FEATURE: Final = "kraft.version"


def can_change(plan: KafkaPlan) -> bool:
    """Whether the plan requests a quorum whose voters can change."""
    return plan.target.features.get(FEATURE, 0) > 0


def levels(plan: KafkaPlan) -> dict[str, int]:
    """The levels of features that formatting is given: the voters' own follows from the voters."""
    return {name: level for name, level in plan.target.features.items() if name != FEATURE}


def quorum(plan: KafkaPlan, addresses: Mapping[str, str], name: str) -> dict[str, str]:
    """The settings that tell a node who the controllers are."""
    at = {node: f"{addresses[node]}:{CONTROLLER_PORT}" for node in known_to(name, plan)}
    if can_change(plan):
        return {"controller.quorum.bootstrap.servers": ",".join(at.values())}
    voters = (f"{node_ids(plan)[node]}@{where}" for node, where in at.items())
    return {"controller.quorum.voters": ",".join(voters)}


# What ackloss sets unless the plan says otherwise: short timeouts, so that a run takes a minute,
# and a leader that stays where it is unless a fault moves it.
DEFAULTS: Final[Mapping[str, Any]] = {
    "num.network.threads": 2,
    "num.io.threads": 2,
    "log.cleaner.dedupe.buffer.size": 2097152,
    "controller.quorum.election.timeout.ms": 1000,
    "controller.quorum.fetch.timeout.ms": 2000,
    "broker.session.timeout.ms": 4000,
    "broker.heartbeat.interval.ms": 500,
    "replica.lag.time.max.ms": 3000,
    "auto.leader.rebalance.enable": False,
    "auto.create.topics.enable": False,
    "offsets.topic.num.partitions": 3,
    "group.initial.rebalance.delay.ms": 0,
}
BOOTSTRAP: Final = "bootstrap"
_LISTENERS: Final = {
    "broker": f"PLAINTEXT://:{BROKER_PORT}",
    "controller": f"CONTROLLER://:{CONTROLLER_PORT}",
}


def ingredients(plan: KafkaPlan, image: ImageRef, say: Say) -> Ingredients:
    """The image, a class-data archive for it, and a formatted bootstrap checkpoint."""
    from targets.kafka import images  # imports Docker's client

    archive = None if is_jars(image) else images.archive(image, say)
    return Ingredients(
        image=image,
        files={BOOTSTRAP: images.bootstrap_checkpoint(image, levels(plan))},
        mounts={archive: images.ARCHIVE_INSIDE} if archive else {},
    )


def specs(plan: KafkaPlan, made: Ingredients, addresses: Mapping[str, str]) -> list[NodeSpec]:
    """Every node with its files: configured, and formatted without starting a JVM, from the
    checkpoint that the version's own StorageTool wrote once."""
    release = release_line(made.image.version or plan.target.version or DEFAULT_VERSION)
    cluster_id = new_cluster_id()
    directories = {name: new_cluster_id() for name in node_ids(plan)}
    bootstrap = {f"{STORED}/{release.bootstrap}": made.files.get(BOOTSTRAP, b"")}
    only_controllers = release.bootstrap == FIRST_SNAPSHOT
    snapshot = cache(
        partial(_first_snapshot, plan, made.image, release, cluster_id, directories, addresses)
    )
    return [
        node_spec(
            name,
            roles(name, plan),
            plan,
            made,
            release.broker_class,
            {
                "server.properties": server_properties(name, plan, addresses),
                f"{STORED}/meta.properties": meta(cluster_id, number, directories[name]),
                **({} if only_controllers and not is_controller(name, plan) else bootstrap),
                **(snapshot(known_to(name, plan)) if is_controller(name, plan) else {}),
            },
            ports=ports_of(roles(name, plan)),
        )
        for name, number in node_ids(plan).items()
    ]


def meta(cluster_id: str, number: int, directory: str) -> bytes:
    """meta.properties of a node's data folder."""
    own = {"node.id": number, "directory.id": directory}
    return properties({"version": 1, "cluster.id": cluster_id, **own})


def roles(name: str, plan: KafkaPlan) -> frozenset[str]:
    """A node's roles: in a combined cluster the first brokers are the controllers too."""
    if name.startswith("c"):
        return frozenset({"controller"})
    if plan.target.combined and int(name[1:]) <= plan.target.controllers:
        return frozenset({"broker", "controller"})
    return frozenset({"broker"})


def ports_of(roles: Collection[str]) -> tuple[int, ...]:
    """Where a node gets requests: as a broker, as a controller, or both."""
    ports = {"broker": BROKER_PORT, "controller": CONTROLLER_PORT}
    return tuple(port for role, port in ports.items() if role in roles)


def is_controller(name: str, plan: KafkaPlan) -> bool:
    """Whether a node is a controller, perhaps besides a broker."""
    return "controller" in roles(name, plan)


def server_properties(name: str, plan: KafkaPlan, addresses: Mapping[str, str]) -> bytes:
    """server.properties of one node: our defaults, the plan's settings, what ackloss owns."""
    own_roles = roles(name, plan)
    owned: dict[str, Any] = {
        "process.roles": ",".join(sorted(own_roles)),
        "node.id": node_ids(plan)[name],
        **quorum(plan, addresses, name),
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": DATA,
        "listeners": ",".join(_LISTENERS[role] for role in sorted(own_roles)),
    }
    if "broker" in own_roles:
        owned["advertised.listeners"] = f"PLAINTEXT://{addresses[name]}:{BROKER_PORT}"
        owned["inter.broker.listener.name"] = "PLAINTEXT"
        if rack := rack_of(name, plan):
            owned["broker.rack"] = rack
    return properties({**defaults(plan), **plan.target.settings, **owned})


def defaults(plan: KafkaPlan) -> dict[str, Any]:
    """What ackloss sets unless the plan does."""
    return {**DEFAULTS, "offsets.topic.replication.factor": min(3, plan.target.brokers)}


def known_to(name: str, plan: KafkaPlan) -> tuple[str, ...]:
    """The controllers that a node takes for the voters: founders know only each other."""
    every = tuple(node for node in node_ids(plan) if is_controller(node, plan))
    founders = every[: plan.target.founders]
    return founders if name in founders else every


def _first_snapshot(
    plan: KafkaPlan,
    image: ImageRef,
    release: ReleaseLine,
    cluster_id: str,
    directories: Mapping[str, str],
    addresses: Mapping[str, str],
    known: tuple[str, ...],
) -> dict[str, bytes]:
    """What a controller begins with where the quorum's voters can change, by its file's name: the
    first snapshot of the metadata log, with its voters, and from 4.4 on the levels of features.

    `directories`: the id of each node's log directory. An outline, which has no image yet, has none
    of it. Raises EnvironmentFailure."""
    if not can_change(plan) or not image.id:
        return {}
    from targets.kafka import images  # imports Docker's client

    initial = ",".join(
        f"{node_ids(plan)[name]}@{addresses[name]}:{CONTROLLER_PORT}:{directories[name]}"
        for name in known
    )
    config = server_properties(known[-1], plan, addresses).decode().replace(DATA, f"{FILES}/data")
    options = ["--initial-controllers", initial, *images.feature_options(levels(plan))]
    made = images.formatted(
        image, release, config, options, cluster_id=cluster_id, read=[FIRST_SNAPSHOT]
    )
    return {f"{STORED}/{name}": content for name, content in made.items()}


def new_cluster_id() -> str:
    """A random id as Kafka makes them: 16 bytes in URL-safe base64 without padding. Never one that
    begins with a dash, which Kafka's tools take for an option."""
    made = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    return new_cluster_id() if made.startswith("-") else made


_INVALID_CONFIG, _TOPIC_EXISTS = 40, 36
_GONE: Final = (0, 3)  # deleted; unknown topic
_DELETE_S: Final = 15.0


def observe_each(
    node: Node, plans: Sequence[KafkaPlan], *, timeout_s: float
) -> list[NodeView | None]:
    """A broker's partitions, a controller's idea of who is active: in one request of a kind."""
    ask = ask_of({node.name: node}, plans[0])
    seen: list[brokers.Partitions] = [()] * len(plans)
    controller, epoch = None, None
    try:
        if "broker" in node.roles:
            topics = [plan.topic.name for plan in plans]
            seen = brokers.partitions(ask, node.name, topics, timeout_s=timeout_s)
        if "controller" in node.roles:
            controller, epoch = _active_controller(node, plans[0], timeout_s)
    except NoAnswer:
        return [None] * len(plans)
    return [
        NodeView(
            answered_by=node.name, partitions=each, controller=controller, controller_epoch=epoch
        )
        for each in seen
    ]


def describe_quorum(version: int) -> Any:
    """The request for who is in the quorum, and who leads it."""
    topic = wire.DescribeQuorumRequest.TopicData
    partition = topic.PartitionData(partition_index=0)
    asked = topic(topic_name="__cluster_metadata", partitions=[partition])
    return wire.DescribeQuorumRequest[version](topics=[asked])


def _active_controller(
    node: Node, plan: KafkaPlan, timeout_s: float
) -> tuple[str | None, int | None]:
    answer = ask(node.address, CONTROLLER_PORT, describe_quorum(0), timeout_s=timeout_s)
    if answer.error_code or not answer.topics:
        return None, None
    quorum = answer.topics[0].partitions[0]
    names = {number: name for name, number in node_ids(plan).items()}
    active = names.get(quorum.leader_id)  # a controller that is not active names none
    return active, quorum.leader_epoch if active else None


def await_brokers(cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
    """Wait until every broker knows every broker, and every controller answers. TimeoutError."""
    nodes, ask = with_role(cluster, "broker"), ask_of(cluster.nodes, plan)

    def missing() -> str | None:
        for node in nodes:
            try:
                answer = brokers.metadata(ask, node.name, [], timeout_s=brokers.ASK_S)
            except NoAnswer:
                return f"broker {node.name} does not answer"
            if (seen := len(answer.brokers)) != len(nodes):
                return f"broker {node.name} sees {seen} of {len(nodes)} brokers"
        for node in with_role(cluster, "controller"):
            if observe_each(node, [plan], timeout_s=brokers.ASK_S) == [None]:
                return f"controller {node.name} does not answer"
        return None

    await_none(cluster, missing, deadline)


def create_topic(cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
    """By CreateTopics; that of the groups' commits too where the plan says who leads it."""
    if plan.target.coordinator is not None:
        _create(cluster, of_commits(plan, DEFAULTS["offsets.topic.num.partitions"]), deadline)
    _create(cluster, plan, deadline)


def _create(cluster: Cluster, plan: KafkaPlan, deadline: float) -> None:
    topic = creatable(plan)

    def missing() -> str | None:
        request = wire.CreateTopicsRequest[7](
            topics=[topic], timeout_ms=10_000, validate_only=False
        )
        try:
            address = with_role(cluster, "broker")[0].address
            answer = ask(address, BROKER_PORT, request, timeout_s=12).topics[0]
        except NoAnswer as error:
            return f"the topic could not be made: {error}"
        if answer.error_code in (0, _TOPIC_EXISTS):
            return None
        if answer.error_code == _INVALID_CONFIG:
            raise PlanError(
                f"the cluster refuses a setting of the topic: {answer.error_message}",
                key="topic.settings",
            )
        return f"the topic could not be made: {wire.for_code(answer.error_code).__name__}"

    await_none(cluster, missing, deadline)


def creatable(plan: KafkaPlan) -> Any:
    """The topic as it is requested. Where the plan does not say who is to lead, Kafka itself
    spreads its leaders, over racks too."""
    kind = wire.CreateTopicsRequest.CreatableTopic
    is_placed = plan.topic.leaders == "one" or plan.topic.first_leader is not None
    placed = assignment(plan) if is_placed else {}
    return kind(
        name=plan.topic.name,
        num_partitions=-1 if placed else plan.topic.partitions,
        replication_factor=-1 if placed else plan.topic.replication_factor,
        assignments=[
            kind.CreatableReplicaAssignment(partition_index=partition, broker_ids=ids)
            for partition, ids in placed.items()
        ],
        configs=[
            kind.CreatableTopicConfig(name=key, value=setting_text(value))
            for key, value in plan.topic.settings.items()
        ],
    )


def forget(cluster: Cluster, topics: Sequence[str]) -> None:
    """All in one request. Raises HarnessFailure when one stays."""
    left, deadline, why = list(topics), time.monotonic() + _DELETE_S, "no broker answered"
    while time.monotonic() < deadline:
        for broker in with_role(cluster, "broker"):
            request = wire.DeleteTopicsRequest[3](topic_names=left, timeout_ms=5000)
            try:
                answer = ask(broker.address, BROKER_PORT, request, timeout_s=6)
            except NoAnswer as error:
                why = str(error)
                continue
            codes = {each.name: each.error_code for each in answer.responses}
            left = [name for name in left if codes.get(name) not in _GONE]
            if not left:
                return
            if left[0] in codes:
                why = wire.for_code(codes[left[0]]).__name__
        time.sleep(0.2)
    raise HarnessFailure(f"the topic {left[0]} could not be deleted: {why}")


# Moves the leaders of the plan's topic: reassignments and elections, as an operator requests them.
#
# In KRaft any broker forwards these requests to the active controller, so the brokers get the
# request one after the other until one answers; while there is no active controller, or a broker is
# down, the next broker gets it, for a limited time. All requests may be sent twice.

_REQUEST_S = 2.0
_LOOK_S = 1.0
_AGAIN_S = 0.1
_TIMED_OUT, _NOT_CONTROLLER, _ELECTION_NOT_NEEDED = 7, 41, 84
_LATER = (_TIMED_OUT, _NOT_CONTROLLER)


class KraftLeadership(Leadership):
    """By requests to brokers."""

    role = "broker"

    def look(self, node: Node) -> NodeView | None:
        return observe_each(node, [self.plan], timeout_s=_LOOK_S)[0]

    def reorder(self, wanted: Mapping[int, Sequence[str]]) -> None:
        """A reassignment to the same replicas in another order: done once it is answered."""
        ids, kind = node_ids(self.plan), wire.AlterPartitionReassignmentsRequest.ReassignableTopic
        partitions = [
            kind.ReassignablePartition(partition_index=n, replicas=[ids[name] for name in names])
            for n, names in wanted.items()
        ]
        topic = kind(name=self.plan.topic.name, partitions=partitions)
        request = wire.AlterPartitionReassignmentsRequest[0](
            timeout_ms=int(_REQUEST_S * 1000), topics=[topic]
        )
        for part in self._asked(request).responses[0].partitions:
            if part.error_code:
                raise HarnessFailure(
                    f"partition {part.partition_index}: the reassignment was refused: "
                    f"{error_name(part.error_code)}: {part.error_message}"
                )

    def elect(self, partitions: Sequence[int]) -> Mapping[int, str]:
        """A preferred leader election, of these partitions alone."""
        topic = wire.ElectLeadersRequest.TopicPartitions(
            topic=self.plan.topic.name, partitions=list(partitions)
        )
        request = wire.ElectLeadersRequest[2](
            election_type=wire.ElectionType.PREFERRED,
            topic_partitions=[topic],
            timeout_ms=int(_REQUEST_S * 1000),
        )
        return {
            part.partition_id: error_name(part.error_code)
            for result in self._asked(request).replica_election_results
            for part in result.partition_result
            if part.error_code not in (0, _ELECTION_NOT_NEEDED)
        }

    def _asked(self, request: Any) -> Any:
        """The answer of the first broker that has one. Raises HarnessFailure."""
        deadline, why = time.monotonic() + LEADERS_S, ""
        while time.monotonic() < deadline:
            for node in self.knowing:
                try:
                    answer = ask(node.address, BROKER_PORT, request, timeout_s=_REQUEST_S + 1)
                except NoAnswer as error:
                    why = str(error)
                    continue
                if answer.error_code == 0:
                    return answer
                why = f"{node.name}: {error_name(answer.error_code)}"
                if answer.error_code not in _LATER:
                    raise HarnessFailure(f"leaders cannot be moved: {why}")
            time.sleep(_AGAIN_S)
        raise HarnessFailure(f"leaders could not be moved within {LEADERS_S:g} s: {why}")


leadership = KraftLeadership


LOG_FOLDER: Final = "data/__cluster_metadata-0"
_META_FILE: Final = "data/meta.properties"
_LEADER_CHANGE: Final = 2

_STATE: Final = re.compile(r"(\w+?)(?:State)?\(")
_EPOCH: Final = re.compile(r"\bepoch=(\d+)")
_LEADER: Final = re.compile(r"\bleader(?:Id)?=(?:OptionalInt\[)?(\d+)")
_VOTED: Final = re.compile(r"\bvoted(?:Key=(?:Optional\[)?ReplicaKey\(id|Id)=(\d+)")
_VOTERS: Final = re.compile(r"\bvoters=\[([\d, ]*)\]")
_START: Final = re.compile(r"\bepochStartOffset=(\d+)")
_COMMITTED: Final = re.compile(r"\bhighWatermark=Optional\[LogOffsetMetadata\(offset=(\d+)")
_DIRECTORY: Final = r"(?:Optional\[)?([\w-]{22})"
_MOVED: Final = re.compile(r"\[RaftManager \w+=\d+\] Completed transition to (.*)")
_MARK: Final = re.compile(
    r"\[RaftManager .*High watermark set to .*?offset=(\d+).* for epoch (\d+)"
)
_CUT: Final = re.compile(r"\[RaftManager .*Truncated to offset (\d+) from Fetch response")


def with_quorum(node: Node, logs: Mapping[str, bytes]) -> dict[str, bytes]:
    """A node's logs and what it leaves of the quorum, unless it has no log of metadata."""
    if not {"controller", "broker"} & node.roles:
        return dict(logs)
    files, meta = node.get(LOG_FOLDER), node.get(_META_FILE)
    if "controller" not in node.roles and not files:
        return dict(logs)
    kept = {"quorum.json": quorum_document(member(node, files, meta, logs))}
    metadata = b"".join(files[name] for name in _segments(files))
    if "controller" in node.roles and len(metadata) <= BYTES_AT_MOST:
        kept[KEPT_AS] = metadata
    return {**logs, **kept}


def _segments(files: Mapping[str, bytes]) -> list[str]:
    return sorted(name for name in files if re.fullmatch(r"\d{20}\.log", name))


def member(
    node: Node, files: Mapping[str, bytes], meta: Mapping[str, bytes], logs: Mapping[str, bytes]
) -> QuorumMember:
    """The document of a node, from the files of its log's folder, its meta.properties and logs."""
    missing: list[str] = []
    written = b"".join(meta.values()).decode(errors="replace")
    properties = dict(line.split("=", 1) for line in written.splitlines() if "=" in line)
    number = int(properties.get("node.id", -1))
    if number < 0:
        missing.append("meta.properties does not say which node it is")
    log = tuple(_batches(b"".join(files[name] for name in _segments(files)), missing))
    named = sorted((name for name in logs if name.startswith("server.log")), reverse=True)
    logged = tuple(
        each
        for name in named
        for each in states(
            logs[name].decode(errors="replace"), number, properties.get("directory.id")
        )
    )
    if not logged:
        missing.append("its log shows no state")
    return QuorumMember(
        node=node.name,
        number=number,
        voter="controller" in node.roles,
        directory=properties.get("directory.id"),
        stored=_stored(files.get("quorum-state"), missing),
        logged=logged,
        log_start=log[0].first if log else 0,
        log=log,
        missing=tuple(missing),
    )


def _stored(content: bytes | None, missing: list[str]) -> QuorumState | None:
    """What `quorum-state` holds."""
    try:
        document: dict[str, Any] = orjson.loads(content or b"")
        leader, voted = document["leaderId"], document["votedId"]
        return QuorumState(
            name="stored",
            epoch=document["leaderEpoch"],
            leader=leader if leader >= 0 else None,
            voted=voted if voted >= 0 else None,
        )
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        missing.append(f"quorum-state cannot be read: {error!r}" if content else "no quorum-state")
        return None


def _batches(raw: bytes, missing: list[str]) -> Iterator[QuorumBatch]:
    """The complete batches of all segments; one that is not complete is still being written."""
    at = 0
    for each in batches(raw):
        begin, end = each.place + BATCH.size, each.place + each.size_bytes
        if crc32c(memoryview(raw)[each.place + CHECKED_AT : end]) != each.checksum:
            break
        yield QuorumBatch(
            first=each.first,
            last=each.last,
            epoch=each.epoch,
            checksum=each.checksum,
            leader=_new_leader(raw, begin, end) if each.attributes & CONTROL else None,
        )
        at = end
    with suppress(NotARecord):
        if format_at(raw, at) is None:
            return
    if any(raw[at:]):  # a segment that was allocated ahead ends with zeros
        missing.append(f"the metadata log is damaged at byte {at:,}")


def _new_leader(raw: bytes, at: int, end: int) -> int | None:
    """The leader that a control record announces, `None` of another kind: its value begins with a
    version and the leader's id."""
    try:
        kind, at = marker(raw, at, end)
        return int(struct.unpack_from(">hi", raw, at)[1]) if kind == _LEADER_CHANGE else None
    except (NotARecord, struct.error):
        return None


def states(log: str, number: int, directory: str | None = None) -> Iterator[QuorumState]:
    """The states that a replica logged, with the high watermarks that it stated and the offsets at
    which it truncated its log. Where the voters that it starts with have another `directory` for
    it, it is none of them."""
    now: QuorumState | None = None
    own, foreign = re.compile(rf"ReplicaKey\(id={number}, directoryId={_DIRECTORY}"), False
    for line in (each for each in log.splitlines() if "[RaftManager " in each):
        if "] Starting voters are " in line:
            found = own.search(line)
            foreign = found is not None and directory is not None and found[1] != directory
        elif moved := _MOVED.search(line):
            to, _, before = moved[1].partition(" from ")
            if (left := _state(before, number)) is not None and left.committed is not None:
                yield left
            if (now := _state(to, number)) is not None:
                now = replace(now, restored=before.startswith("null"))
                yield replace(now, voter=False) if foreign else now
        elif now is not None and (mark := _MARK.search(line)):
            yield QuorumState(
                name=now.name, epoch=int(mark[2]), start=now.start, committed=int(mark[1])
            )
        elif now is not None and (cut := _CUT.search(line)):
            yield QuorumState(name=now.name, epoch=now.epoch, cut=int(cut[1]))


def _state(text: str, number: int) -> QuorumState | None:
    """A state as Kafka prints it: `CandidateState(localId=101, epoch=2, ...)`."""
    name, epoch = _STATE.match(text), _EPOCH.search(text)
    if name is None or epoch is None:
        return None
    leads = name[1] in ("Leader", "Resigned")
    votes = name[1] in ("Leader", "Candidate")
    voters = _VOTERS.search(text)
    return QuorumState(
        name=name[1],
        epoch=int(epoch[1]),
        leader=number if leads else _number(_LEADER, text),
        voted=number if votes else _number(_VOTED, text),
        voter=None if voters is None else str(number) in voters[1].split(", "),
        start=_number(_START, text),
        committed=_number(_COMMITTED, text),
    )


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found[1]) if found else None
