"""The nouns of ackloss and their contracts: the first folder to read.

    plan     one TOML file: target, settings, workload, fault schedule, checks, seed
    node     a host; in Docker a pod of two containers (a holder and the target's own)
    cluster  nodes and the levers that work on them
    lever    changes one thing on a node, can undo it, and can prove it
    nemesis  decides which levers to pull, on which nodes; knows no iptables
    target   the system under test: its files, how it starts, who leads, its clients
    workload what the clients do: generators of operations, without network or clock
    op       an invoke, completed by ok (surely happened), fail (surely did not) or info (unknown)
    checker  a pure function from histories to findings

Protocols are small, and an ability that only some have is a protocol of its own. A plug-in is a
frozen dataclass in `nemeses/`, `workloads/`, `targets/` or `checkers/` that has a class variable
`plugin`, its name in plans. Its fields are its options (unit last in their names), its docstring is
its help text. There is no list to edit.
"""

from __future__ import annotations

from harness.protocols.faults import (
    BOUNDED_DISK,
    FAKETIME,
    Act,
    CapturesPriorState,
    HasLevers,
    Lever,
    Needs,
    Nemesis,
    NodeNames,
    Proof,
    Select,
    SingleUse,
    UndoRecord,
)
from harness.protocols.nodes import (
    CLIENT_ROLE,
    NODE_DATA,
    STORED,
    Cluster,
    Completed,
    ImageRef,
    Ingredients,
    Node,
    NodeSpec,
    ProcessState,
    with_role,
)
from harness.protocols.operations import (
    FAIL,
    INFO,
    OK,
    Client,
    Completion,
    Done,
    Invoke,
    Script,
    Workload,
    completion,
    invoke,
)
from harness.protocols.systems import (
    End,
    HasLeaders,
    HasLogs,
    Limited,
    NodeView,
    PartitionView,
    Reusable,
    Situation,
    Target,
    Unsupported,
)

__all__ = [
    "BOUNDED_DISK",
    "CLIENT_ROLE",
    "FAIL",
    "FAKETIME",
    "INFO",
    "NODE_DATA",
    "OK",
    "STORED",
    "Act",
    "CapturesPriorState",
    "Client",
    "Cluster",
    "Completed",
    "Completion",
    "Done",
    "End",
    "HasLeaders",
    "HasLevers",
    "HasLogs",
    "ImageRef",
    "Ingredients",
    "Invoke",
    "Lever",
    "Limited",
    "Needs",
    "Nemesis",
    "Node",
    "NodeNames",
    "NodeSpec",
    "NodeView",
    "PartitionView",
    "ProcessState",
    "Proof",
    "Reusable",
    "Script",
    "Select",
    "SingleUse",
    "Situation",
    "Target",
    "UndoRecord",
    "Unsupported",
    "Workload",
    "completion",
    "invoke",
    "with_role",
]
