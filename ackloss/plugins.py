"""Everything that a plug-in outside this repository needs, under one name that stays.

    from ackloss.plugins import Script, Workload, invoke

docs/extending.md explains what a nemesis, workload, target and checker is; each name here is
documented where it is defined:

    harness.protocols       the contracts (all of their names)
    harness.models          the models of operations
    harness.plan            sections of plans, and the types of their keys
    harness.faults.records  undo records, one for each lever
    harness.faults.leaders  words for systems with leaders
    harness.history         READS, the columns of a final read
    harness.run.blocking    the client made of blocking ones
    harness.images          images of nodes: a recipe is built, or an image is pulled, once
    harness.levers          the levers over Linux hosts, for a kind of cluster
    harness.clusters.specs  the nodes that a target wants, for a kind of cluster
    harness.machine.scratch a temporary folder that `ackloss clean` removes after a crash
    harness.errors          what a plug-in may raise
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.clusters.specs import specs_of
from harness.errors import (
    AcklossError,
    EnvironmentFailure,
    HarnessFailure,
    HistoryError,
    PlanError,
)
from harness.faults import leaders
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
from harness.images.recipe import Recipe
from harness.levers import all_levers
from harness.machine.scratch import scratch
from harness.models import MODELS, Model, micro_ops
from harness.models.appends import increasing
from harness.plan import (
    ClusterPlan,
    FinalPlan,
    Plan,
    Scalar,
    Section,
    Settings,
    Slug,
    TargetPlan,
    Version,
    WorkloadPlan,
)

# All of them, so that a protocol that is added is here as well.
from harness.protocols import *  # noqa: F403
from harness.protocols import __all__ as _protocols
from harness.protocols.clock import Clock, RealClock
from harness.protocols.crashes import ClientNemesis, ClientState, Crashes, Death, KnowsCrashes
from harness.protocols.groups import (
    CONSUMERS_MOST,
    Action,
    Consumers,
    ConsumerState,
    Delivery,
    GroupSettings,
    HasConsumers,
    consumer_name,
    why_unassigned,
    why_unread,
)
from harness.protocols.transactions import TransactionSettings
from harness.run.blocking import ThreadedClient

if TYPE_CHECKING:
    from harness.images.building import ensure as ensure_image
    from harness.images.building import pulled as pulled_image

__all__ = [
    "CLIENTS",
    "CONSUMERS_MOST",
    "MODELS",
    "READS",
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
    "Delivery",
    "DiskRecord",
    "EnvironmentFailure",
    "FinalPlan",
    "FullRecord",
    "GroupSettings",
    "HarnessFailure",
    "HasConsumers",
    "HistoryError",
    "KnowsCrashes",
    "LeadershipRecord",
    "ManualRecord",
    "MembersRecord",
    "Model",
    "NetRecord",
    "PauseRecord",
    "Peer",
    "Plan",
    "PlanError",
    "PowerRecord",
    "ProcessRecord",
    "ProtocolAct",
    "ProtocolRecord",
    "ReadOnlyRecord",
    "RealClock",
    "Recipe",
    "Scalar",
    "Section",
    "Settings",
    "ShapingRecord",
    "Slug",
    "StressRecord",
    "TargetPlan",
    "ThreadedClient",
    "TransactionSettings",
    "Version",
    "WorkloadPlan",
    "all_levers",
    "consumer_name",
    "ensure_image",
    "increasing",
    "leaders",
    "micro_ops",
    "pulled_image",
    "scratch",
    "specs_of",
    "why_unassigned",
    "why_unread",
]
__all__ += _protocols

_IMAGES = {"ensure_image": "ensure", "pulled_image": "pulled"}


def __getattr__(name: str) -> Any:
    """What imports Docker's client is imported when it is first needed."""
    if name not in _IMAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from harness.images import building

    return getattr(building, _IMAGES[name])
