"""Everything that a plug-in outside this repository needs, under one name that stays.

    from ackloss.plugins import Script, Workload, invoke

docs/how-to/extending.md explains what a nemesis, workload, target and checker is; each name here is
documented where it is defined:

    harness.protocols           the contracts (all of their names)
    harness.models              the models of operations
    harness.registry            model_of, the model of a plan's workload
    harness.plan                sections of plans, and the types of their keys
    harness.faults.records      undo records, one for each lever
    harness.faults.leaders      words for systems with leaders
    harness.faults.own_traffic  connections of the harness, which faults do not count
    harness.history             READS, the columns of a final read
    harness.run.blocking        the client made of blocking ones
    harness.run.cells           the plan of each cell, what its groups and transactions do
    harness.images              images of nodes: a recipe is built, or an image is pulled, once
    harness.levers              the levers over Linux hosts, and what some of them ask of a target:
                                requests and proxies (`protocol`), how it stores (`disk`)
    harness.protocols.clusters  the nodes that a target wants, for a kind of cluster
    harness.clusters.memory     simulated nodes, for a target that runs on them
    harness.servers             the base of systems that are a server on each node
    harness.machine.scratch     a temporary folder that `ackloss clean` removes after a crash
    harness.errors              what a plug-in may raise
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Generic

from harness.clusters.memory.cluster import MemoryCluster
from harness.clusters.memory.node import Disk, File, MemoryNode, Process
from harness.clusters.memory.provider import RunsSimulated, simulated_of
from harness.clusters.memory.simulation import Host, Refused
from harness.errors import (
    AcklossError,
    EnvironmentFailure,
    HarnessFailure,
    HistoryError,
    Mistakes,
    PlanError,
    nearest,
)
from harness.faults import leaders
from harness.faults.own_traffic import NoAnswer, own_connection
from harness.faults.records import (
    CLIENTS,
    ClientRecord,
    ClockRecord,
    ConsumerRecord,
    DiskRecord,
    FullRecord,
    LeadershipRecord,
    ManualRecord,
    MembersRecord,
    Move,
    NetRecord,
    PauseRecord,
    Peer,
    PowerRecord,
    ProcessRecord,
    ProtocolAct,
    ProtocolRecord,
    ReadOnlyRecord,
    ShapingRecord,
    StressRecord,
)
from harness.history import READS
from harness.history.documents import LOST_KINDS
from harness.images.recipe import Recipe
from harness.levers import all_levers, disk, proxied
from harness.levers.commands import poll_until
from harness.levers.disk import DiskLever
from harness.levers.process import kept_dead_by
from harness.levers.protocol import ProtocolLever, Requests
from harness.levers.proxied import with_proxy
from harness.machine.scratch import scratch
from harness.models import MODELS, Model, micro_ops
from harness.models.appends import increasing
from harness.percent import percent
from harness.plan import (
    ClusterPlan,
    FinalPlan,
    Image,
    Plan,
    Scalar,
    Section,
    Settings,
    Slug,
    TargetPlan,
    Version,
    WorkloadPlan,
    number_of,
)
from harness.plan.model import IGNORED, USED, OwnKey, State

# All of them, so that a protocol that is added is here as well.
from harness.protocols import *  # noqa: F403
from harness.protocols import __all__ as _protocols
from harness.protocols.checkers import ENDED, LOST_WRITES, counted, counter_examples
from harness.protocols.clock import Clock, RealClock
from harness.protocols.clusters import specs_of
from harness.protocols.crashes import ClientNemesis, ClientState, Crashes, Death
from harness.protocols.groups import (
    CONSUMERS_MOST,
    KINDS,
    Action,
    Consumers,
    ConsumerState,
    Delivery,
    GroupSettings,
    Record,
    consumer_name,
    why_unassigned,
    why_unread,
)
from harness.protocols.systems import PlanOf
from harness.protocols.transactions import (
    ABORTED,
    CRASHED,
    NOT_AT_END,
    READ_COMMITTED,
    READ_UNCOMMITTED,
    TAKEN_OVER,
    TransactionSettings,
)
from harness.protocols.vocabulary import Groups
from harness.registry import model_of
from harness.run.blocking import THREADS_AT_MOST, ThreadedClient
from harness.run.cells import cell_plans, group_of, transactions_of
from harness.servers import (
    Debian,
    ErrorAnswer,
    ErrorRow,
    JsonOverHttp,
    KeyValueClient,
    NotSent,
    Report,
    Server,
    ServerPlan,
    ServerSystem,
    ServerTargetPlan,
    ServerWorkloadPlan,
    ask_json,
    await_processes,
    compare_settings,
    setting_text,
    shared_settings,
)

if TYPE_CHECKING:
    from harness.images.building import ensure as ensure_image
    from harness.images.building import pulled as pulled_image
    from harness.images.java import jar as java_jar

__all__ = [
    "ABORTED",
    "CLIENTS",
    "CONSUMERS_MOST",
    "CRASHED",
    "ENDED",
    "IGNORED",
    "KINDS",
    "LOST_KINDS",
    "LOST_WRITES",
    "MODELS",
    "NOT_AT_END",
    "READS",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "TAKEN_OVER",
    "THREADS_AT_MOST",
    "USED",
    "AcklossError",
    "Action",
    "ClientNemesis",
    "ClientRecord",
    "ClientState",
    "Clock",
    "ClockRecord",
    "ClusterPlan",
    "ConsumerRecord",
    "ConsumerState",
    "Consumers",
    "Crashes",
    "Death",
    "Debian",
    "Delivery",
    "Disk",
    "DiskLever",
    "DiskRecord",
    "EnvironmentFailure",
    "ErrorAnswer",
    "ErrorRow",
    "File",
    "FinalPlan",
    "FullRecord",
    "GroupSettings",
    "Groups",
    "HarnessFailure",
    "HistoryError",
    "Host",
    "Image",
    "JsonOverHttp",
    "KeyValueClient",
    "LeadershipRecord",
    "ManualRecord",
    "MembersRecord",
    "MemoryCluster",
    "MemoryNode",
    "Mistakes",
    "Model",
    "Move",
    "NetRecord",
    "NoAnswer",
    "NotSent",
    "OwnKey",
    "PauseRecord",
    "Peer",
    "Plan",
    "PlanError",
    "PowerRecord",
    "Process",
    "ProcessRecord",
    "ProtocolAct",
    "ProtocolLever",
    "ProtocolRecord",
    "ReadOnlyRecord",
    "RealClock",
    "Recipe",
    "Record",
    "Refused",
    "Report",
    "Requests",
    "RunsSimulated",
    "Scalar",
    "Section",
    "Server",
    "ServerPlan",
    "ServerSystem",
    "ServerTargetPlan",
    "ServerWorkloadPlan",
    "Settings",
    "ShapingRecord",
    "Slug",
    "State",
    "StressRecord",
    "TargetPlan",
    "ThreadedClient",
    "TransactionSettings",
    "Version",
    "WorkloadPlan",
    "all_levers",
    "ask_json",
    "await_processes",
    "cell_plans",
    "compare_settings",
    "consumer_name",
    "counted",
    "counter_examples",
    "disk",
    "ensure_image",
    "group_of",
    "increasing",
    "java_jar",
    "kept_dead_by",
    "leaders",
    "micro_ops",
    "model_of",
    "nearest",
    "number_of",
    "own_connection",
    "percent",
    "poll_until",
    "proxied",
    "pulled_image",
    "scratch",
    "setting_text",
    "shared_settings",
    "simulated_of",
    "specs_of",
    "transactions_of",
    "vocabulary_of",
    "why_unassigned",
    "why_unread",
    "with_proxy",
]
__all__ += _protocols

_LAZY = {
    "ensure_image": ("harness.images.building", "ensure"),
    "java_jar": ("harness.images.java", "jar"),
    "pulled_image": ("harness.images.building", "pulled"),
}


_PARTS = (
    "DeclaresRecords",
    "DescribesRuns",
    "EndsByItself",
    "Guest",
    "HasConsumers",
    "HasFinal",
    "HasLeaders",
    "HasLevers",
    "HasLibraries",
    "HasLogLines",
    "HasLogs",
    "HasOwnDisk",
    "HasVocabulary",
    "HoldsCells",
    "KnowsCrashes",
    "LeavesObjects",
    "Limited",
    "ListsSettings",
    "LosesHosts",
    "MadeBeforehand",
    "Managed",
    "ReachedByNetwork",
    "ReadsRanges",
    "Reusable",
    "RunsElsewhere",
    "RunsInContainers",
    "RunsOnHosts",
    "ServesAnyClient",
    "TakesClusterFile",
    "TakesInventory",
    "TakesSettingsFiles",
    "UsesPackages",
    "Warns",
)
"""Parts of base classes that once had names: a plug-in may inherit them, and need not."""
__all__ += _PARTS


class _Part(Generic[PlanOf]):
    """A part of a base class, which has it already."""


def vocabulary_of(target: Target[Any]) -> Vocabulary:  # noqa: F405
    """The words that a target adds (`Target.vocabulary`)."""
    return target.vocabulary()


def __getattr__(name: str) -> Any:
    """What imports Docker's client is imported when it is first needed."""
    if name in _PARTS:
        of = {"outlives": True} if name == "LeavesObjects" else {}
        globals()[name] = part = type(name, (_Part,), {"__module__": __name__, **of})
        return part
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, of_module = _LAZY[name]
    return getattr(importlib.import_module(module), of_module)
