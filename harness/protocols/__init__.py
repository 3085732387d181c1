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

from harness.protocols.checkers import (
    DOUBTS,
    INVALID,
    OUTCOME_DOUBTS,
    UNKNOWN,
    VALID,
    Checker,
    CheckResult,
    Number,
    Run,
    Statement,
)
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
    Result,
    Script,
    Workload,
    completion,
    invoke,
)
from harness.protocols.promises import Promises
from harness.protocols.runs import (
    DONE,
    NULL,
    Bits,
    Bools,
    Facts,
    FaultWindow,
    Gaps,
    Int32s,
    Ints,
    Lists,
    Operations,
    PartitionEnd,
    Reads,
    ScriptedFault,
    Texts,
    Writes,
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
    Warns,
)

__all__ = [
    "BOUNDED_DISK",
    "CLIENT_ROLE",
    "DONE",
    "DOUBTS",
    "FAIL",
    "FAKETIME",
    "INFO",
    "INVALID",
    "NODE_DATA",
    "NULL",
    "OK",
    "OUTCOME_DOUBTS",
    "STORED",
    "UNKNOWN",
    "VALID",
    "Act",
    "Bits",
    "Bools",
    "CapturesPriorState",
    "CheckResult",
    "Checker",
    "Client",
    "Cluster",
    "Completed",
    "Completion",
    "Done",
    "End",
    "Facts",
    "FaultWindow",
    "Gaps",
    "HasLeaders",
    "HasLevers",
    "HasLogs",
    "ImageRef",
    "Ingredients",
    "Int32s",
    "Ints",
    "Invoke",
    "Lever",
    "Limited",
    "Lists",
    "Needs",
    "Nemesis",
    "Node",
    "NodeNames",
    "NodeSpec",
    "NodeView",
    "Number",
    "Operations",
    "PartitionEnd",
    "PartitionView",
    "ProcessState",
    "Promises",
    "Proof",
    "Reads",
    "Result",
    "Reusable",
    "Run",
    "Script",
    "ScriptedFault",
    "Select",
    "SingleUse",
    "Situation",
    "Statement",
    "Target",
    "Texts",
    "UndoRecord",
    "Unsupported",
    "Warns",
    "Workload",
    "Writes",
    "completion",
    "invoke",
    "with_role",
]
