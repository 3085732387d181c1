"""Everything that a plug-in outside this repository needs, under one name that stays.

    from ackloss.plugins import Script, Workload, invoke

docs/how-to/extending.md explains what a nemesis, workload, target and checker is; each name here is
documented where it is defined:

    harness.protocols           the contracts (all of their names)
    harness.models              the models of operations
    harness.registry            model_of, the model of a plan's workload
    harness.plan                sections of plans, and the types of their keys
    harness.faults.records      undo records, one for each lever
    harness.faults.journal      windows, the faults of a stored run
    harness.faults.leaders      words for systems with leaders
    harness.faults.own_traffic  connections of the harness, which faults do not count
    harness.history             READS, the columns of a final read; MEMBERS, one of observations
    harness.run.cells           the plan of each cell, what its groups and transactions do
    harness.run.client_pool     the client made of blocking ones
    harness.images              images of nodes: a recipe is built, or an image is pulled, once
    harness.levers              the levers over Linux hosts, and what some of them ask of a target:
                                requests and proxies (`protocol`), how it stores (`disk`)
    harness.protocols.clusters  the nodes that a target wants, for a kind of cluster
    harness.clusters.memory     simulated nodes, for a target that runs on them
    harness.servers             the base of systems that are a server on each node
    harness.machine.files     a temporary folder that `ackloss clean` removes after a crash
    harness.errors              what a plug-in may raise
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Generic

from harness.clusters.memory import MemoryCluster as MemoryCluster
from harness.clusters.memory import RunsSimulated as RunsSimulated
from harness.clusters.memory import simulated_of as simulated_of
from harness.clusters.memory.node import Disk as Disk
from harness.clusters.memory.node import File as File
from harness.clusters.memory.node import MemoryNode as MemoryNode
from harness.clusters.memory.node import Process as Process
from harness.clusters.memory.simulation import Host as Host
from harness.clusters.memory.simulation import Refused as Refused
from harness.errors import AcklossError as AcklossError
from harness.errors import EnvironmentFailure as EnvironmentFailure
from harness.errors import HarnessFailure as HarnessFailure
from harness.errors import HistoryError as HistoryError
from harness.errors import Mistakes as Mistakes
from harness.errors import PlanError as PlanError
from harness.errors import nearest as nearest
from harness.faults import leaders as leaders
from harness.faults.journal import windows as windows
from harness.faults.own_traffic import NoAnswer as NoAnswer
from harness.faults.own_traffic import own_connection as own_connection
from harness.faults.records import CLIENTS as CLIENTS
from harness.faults.records import ClientRecord as ClientRecord
from harness.faults.records import ClockRecord as ClockRecord
from harness.faults.records import ConsumerRecord as ConsumerRecord
from harness.faults.records import DiskRecord as DiskRecord
from harness.faults.records import FeaturesRecord as FeaturesRecord
from harness.faults.records import FullRecord as FullRecord
from harness.faults.records import LeadershipRecord as LeadershipRecord
from harness.faults.records import Level as Level
from harness.faults.records import ManualRecord as ManualRecord
from harness.faults.records import MembersRecord as MembersRecord
from harness.faults.records import Move as Move
from harness.faults.records import NetRecord as NetRecord
from harness.faults.records import PauseRecord as PauseRecord
from harness.faults.records import Peer as Peer
from harness.faults.records import PowerRecord as PowerRecord
from harness.faults.records import ProcessRecord as ProcessRecord
from harness.faults.records import ProgramRecord as ProgramRecord
from harness.faults.records import ProtocolAct as ProtocolAct
from harness.faults.records import ProtocolRecord as ProtocolRecord
from harness.faults.records import ReadOnlyRecord as ReadOnlyRecord
from harness.faults.records import ShapingRecord as ShapingRecord
from harness.faults.records import StageRecord as StageRecord
from harness.faults.records import StressRecord as StressRecord
from harness.history import MEMBERS as MEMBERS
from harness.history import READS as READS
from harness.history.documents import LOST_KINDS as LOST_KINDS
from harness.history.run_folder import RunDir as RunDir
from harness.history.run_folder import write_atomically as write_atomically
from harness.images.recipe import Archive as Archive
from harness.images.recipe import Debian as Debian
from harness.images.recipe import GoModule as GoModule
from harness.images.recipe import MavenArchive as MavenArchive
from harness.images.recipe import Recipe as Recipe
from harness.images.recipe import Source as Source
from harness.images.recipe import Wheel as Wheel
from harness.levers import all_levers as all_levers
from harness.levers import disk as disk
from harness.levers import proxied as proxied
from harness.levers.commands import poll_until as poll_until
from harness.levers.disk import DiskLever as DiskLever
from harness.levers.process import kept_dead_by as kept_dead_by
from harness.levers.protocol import ProtocolLever as ProtocolLever
from harness.levers.protocol import Requests as Requests
from harness.levers.proxied import with_proxy as with_proxy
from harness.machine.files import scratch as scratch
from harness.models import MODELS as MODELS
from harness.models import Model as Model
from harness.models import micro_ops as micro_ops
from harness.plan import ClusterPlan as ClusterPlan
from harness.plan import FinalPlan as FinalPlan
from harness.plan import Image as Image
from harness.plan import Plan as Plan
from harness.plan import Scalar as Scalar
from harness.plan import Section as Section
from harness.plan import Settings as Settings
from harness.plan import Slug as Slug
from harness.plan import TargetPlan as TargetPlan
from harness.plan import Version as Version
from harness.plan import WorkloadPlan as WorkloadPlan
from harness.plan import number_of as number_of
from harness.plan.model import IGNORED as IGNORED
from harness.plan.model import USED as USED
from harness.plan.model import OwnKey as OwnKey
from harness.plan.model import State as State
from harness.protocols import *  # noqa: F403
from harness.protocols.checkers import ENDED as ENDED
from harness.protocols.checkers import LOST_WRITES as LOST_WRITES
from harness.protocols.checkers import counted as counted
from harness.protocols.checkers import counter_examples as counter_examples
from harness.protocols.checkers import findings_table as findings_table
from harness.protocols.checkers import percent as percent
from harness.protocols.checkers import rates as rates
from harness.protocols.clock import Clock as Clock
from harness.protocols.clock import RealClock as RealClock
from harness.protocols.clock import RunClock as RunClock
from harness.protocols.clusters import specs_of as specs_of
from harness.protocols.explanations import ASYNCHRONOUS_CAUSES as ASYNCHRONOUS_CAUSES
from harness.protocols.explanations import Holding as Holding
from harness.protocols.explanations import LogRow as LogRow
from harness.protocols.explanations import Waits as Waits
from harness.protocols.faults import ClientNemesis as ClientNemesis
from harness.protocols.faults import ClientState as ClientState
from harness.protocols.faults import Crashes as Crashes
from harness.protocols.faults import Death as Death
from harness.protocols.faults import Groups as Groups
from harness.protocols.groups import ABORTED as ABORTED
from harness.protocols.groups import CONSUMERS_MOST as CONSUMERS_MOST
from harness.protocols.groups import CRASHED as CRASHED
from harness.protocols.groups import KINDS as KINDS
from harness.protocols.groups import NOT_AT_END as NOT_AT_END
from harness.protocols.groups import READ_COMMITTED as READ_COMMITTED
from harness.protocols.groups import READ_UNCOMMITTED as READ_UNCOMMITTED
from harness.protocols.groups import TAKEN_OVER as TAKEN_OVER
from harness.protocols.groups import Action as Action
from harness.protocols.groups import Consumers as Consumers
from harness.protocols.groups import ConsumerState as ConsumerState
from harness.protocols.groups import Delivery as Delivery
from harness.protocols.groups import GroupSettings as GroupSettings
from harness.protocols.groups import Record as Record
from harness.protocols.groups import TransactionSettings as TransactionSettings
from harness.protocols.groups import consumer_name as consumer_name
from harness.protocols.groups import why_unassigned as why_unassigned
from harness.protocols.groups import why_unread as why_unread
from harness.protocols.systems import BallastChanges as BallastChanges
from harness.protocols.systems import PlanOf as _PlanOf
from harness.registry import model_of as model_of
from harness.run.cells import cell_plans as cell_plans
from harness.run.cells import group_of as group_of
from harness.run.cells import transactions_of as transactions_of
from harness.run.client_pool import THREADS_AT_MOST as THREADS_AT_MOST
from harness.run.client_pool import ThreadedClient as ThreadedClient
from harness.servers import ADDRESSES as ADDRESSES
from harness.servers import CLIENT_KEYS as CLIENT_KEYS
from harness.servers import DIFFERS as DIFFERS
from harness.servers import NOT_COMMITTED as NOT_COMMITTED
from harness.servers import NOT_CONNECTED as NOT_CONNECTED
from harness.servers import ErrorAnswer as ErrorAnswer
from harness.servers import ErrorRow as ErrorRow
from harness.servers import JsonOverHttp as JsonOverHttp
from harness.servers import KeyValueClient as KeyValueClient
from harness.servers import Log as Log
from harness.servers import Moving as Moving
from harness.servers import NotSent as NotSent
from harness.servers import Report as Report
from harness.servers import Server as Server
from harness.servers import ServerPlan as ServerPlan
from harness.servers import ServerSystem as ServerSystem
from harness.servers import ServerTargetPlan as ServerTargetPlan
from harness.servers import ServerWorkloadPlan as ServerWorkloadPlan
from harness.servers import SqlClient as SqlClient
from harness.servers import addresses_of as addresses_of
from harness.servers import ask_json as ask_json
from harness.servers import await_none as await_none
from harness.servers import compare_settings as compare_settings
from harness.servers import connected as connected
from harness.servers import fetched as fetched
from harness.servers import in_turn as in_turn
from harness.servers import limited as limited
from harness.servers import scraped as scraped
from harness.servers import setting_text as setting_text
from harness.servers import shared_settings as shared_settings
from workloads.append import increasing as increasing

if TYPE_CHECKING:
    from harness.images import building as _building
    from harness.images import java as _java

    ensure_image, java_jar, pulled_image = _building.ensure, _java.jar, _building.pulled

_LAZY = {
    "ensure_image": ("harness.images.building", "ensure"),
    "java_jar": ("harness.images.java", "jar"),
    "pulled_image": ("harness.images.building", "pulled"),
}
"""What imports Docker's client is imported when it is first needed."""

_PARTS = (
    *("DeclaresRecords", "DescribesRuns", "EndsByItself", "Guest", "HasConsumers", "HasLeaders"),
    *("HasFinal", "HasLevers", "HasLibraries", "HasLogLines", "HasLogs", "HasOwnDisk"),
    *("HasVocabulary", "HoldsCells", "KnowsCrashes", "LeavesObjects", "Limited", "ListsSettings"),
    *("LosesHosts", "MadeBeforehand", "Managed", "ReachedByNetwork", "ReadsRanges", "Reusable"),
    *("RunsElsewhere", "RunsInContainers", "RunsOnHosts", "ServesAnyClient", "TakesClusterFile"),
    *("TakesInventory", "TakesSettingsFiles", "UsesPackages", "Warns"),
)
"""Parts of base classes that once had names: a plug-in may inherit them, and need not."""


class _Part(Generic[_PlanOf]):
    """A part of a base class, which has it already."""


def vocabulary_of(target: Target[Any]) -> Vocabulary:  # noqa: F405
    """The words that a target adds (`Target.vocabulary`)."""
    return target.vocabulary()


# Set so, and the imports written so, that every name stands here once for Python and for mypy.
_OWN = ("annotations", "importlib", "TYPE_CHECKING", "Any", "Generic")
globals()["__all__"] = [
    *(name for name in globals() if not name.startswith("_") and name not in _OWN),
    *_LAZY,
    *_PARTS,
]


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        of = {"outlives": True} if name == "LeavesObjects" else {}
        globals()[name] = part = type(name, (_Part,), {"__module__": __name__, **of})
        return part
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, of_module = _LAZY[name]
    return getattr(importlib.import_module(module), of_module)
