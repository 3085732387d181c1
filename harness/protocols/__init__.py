"""The nouns of ackloss and their contracts: read this folder first.

    plan     one TOML file: target, settings, workload, fault schedule, checks, seed
    node     a host; in Docker a pod of two containers (infrastructure and target)
    cluster  nodes and the levers that work on them
    lever    changes one thing on a node, can undo it, and can prove it
    nemesis  decides which levers to use, on which nodes; knows nothing of iptables
    target   the system under test: its files, how it starts, who leads, its clients
    workload what the clients do: generators of operations, without network or clock
    op       an invoke, completed by ok (happened), fail (did not happen) or info (unknown)
    checker  a pure function from histories to findings

What only some plug-ins do is a method of their base class, with a default. A plug-in is a frozen
dataclass in `nemeses/`, `workloads/`, `targets/` or `checkers/` that has a class variable `plugin`,
its name in plans. Its fields are its options (unit last in their names), its docstring is its help
text. There is no list to edit.
"""

from __future__ import annotations

from types import ModuleType as _Module

from harness.protocols.checkers import DOUBTS as DOUBTS
from harness.protocols.checkers import INVALID as INVALID
from harness.protocols.checkers import OUTCOME_DOUBTS as OUTCOME_DOUBTS
from harness.protocols.checkers import UNKNOWN as UNKNOWN
from harness.protocols.checkers import VALID as VALID
from harness.protocols.checkers import Checker as Checker
from harness.protocols.checkers import CheckResult as CheckResult
from harness.protocols.checkers import Count as Count
from harness.protocols.checkers import Number as Number
from harness.protocols.checkers import OneShard as OneShard
from harness.protocols.checkers import PrimaryFinding as PrimaryFinding
from harness.protocols.checkers import Run as Run
from harness.protocols.checkers import Statement as Statement
from harness.protocols.clusters import Cost as Cost
from harness.protocols.clusters import NodeOutline as NodeOutline
from harness.protocols.clusters import Order as Order
from harness.protocols.clusters import Provider as Provider
from harness.protocols.explanations import NOT_EXAMINED as NOT_EXAMINED
from harness.protocols.explanations import UNEXPLAINED as UNEXPLAINED
from harness.protocols.explanations import Explanation as Explanation
from harness.protocols.explanations import Fact as Fact
from harness.protocols.explanations import Happened as Happened
from harness.protocols.explanations import Line as Line
from harness.protocols.explanations import Prevention as Prevention
from harness.protocols.explanations import Removed as Removed
from harness.protocols.explanations import RemovedRecord as RemovedRecord
from harness.protocols.faults import BOUNDED_DISK as BOUNDED_DISK
from harness.protocols.faults import FAKETIME as FAKETIME
from harness.protocols.faults import OWN_DISK as OWN_DISK
from harness.protocols.faults import Act as Act
from harness.protocols.faults import Choice as Choice
from harness.protocols.faults import ConditionForm as ConditionForm
from harness.protocols.faults import Nemesis as Nemesis
from harness.protocols.faults import NodeNemesis as NodeNemesis
from harness.protocols.faults import Select as Select
from harness.protocols.faults import Since as Since
from harness.protocols.faults import Vocabulary as Vocabulary
from harness.protocols.nodes import CLIENT_ROLE as CLIENT_ROLE
from harness.protocols.nodes import NODE_DATA as NODE_DATA
from harness.protocols.nodes import STORED as STORED
from harness.protocols.nodes import Access as Access
from harness.protocols.nodes import Cluster as Cluster
from harness.protocols.nodes import Completed as Completed
from harness.protocols.nodes import Distribution as Distribution
from harness.protocols.nodes import End as End
from harness.protocols.nodes import Finding as Finding
from harness.protocols.nodes import ImageRef as ImageRef
from harness.protocols.nodes import Ingredients as Ingredients
from harness.protocols.nodes import Lever as Lever
from harness.protocols.nodes import Member as Member
from harness.protocols.nodes import Node as Node
from harness.protocols.nodes import NodeNames as NodeNames
from harness.protocols.nodes import NodeSpec as NodeSpec
from harness.protocols.nodes import NodeView as NodeView
from harness.protocols.nodes import OwnConnection as OwnConnection
from harness.protocols.nodes import OwnDisk as OwnDisk
from harness.protocols.nodes import PartitionView as PartitionView
from harness.protocols.nodes import Place as Place
from harness.protocols.nodes import PowerLoss as PowerLoss
from harness.protocols.nodes import ProcessState as ProcessState
from harness.protocols.nodes import Proof as Proof
from harness.protocols.nodes import Range as Range
from harness.protocols.nodes import RunCluster as RunCluster
from harness.protocols.nodes import Secret as Secret
from harness.protocols.nodes import Situation as Situation
from harness.protocols.nodes import Status as Status
from harness.protocols.nodes import Stored as Stored
from harness.protocols.nodes import UndoRecord as UndoRecord
from harness.protocols.nodes import with_role as with_role
from harness.protocols.operations import FAIL as FAIL
from harness.protocols.operations import INFO as INFO
from harness.protocols.operations import OK as OK
from harness.protocols.operations import BlockingClient as BlockingClient
from harness.protocols.operations import Client as Client
from harness.protocols.operations import Completion as Completion
from harness.protocols.operations import Done as Done
from harness.protocols.operations import Expected as Expected
from harness.protocols.operations import Invoke as Invoke
from harness.protocols.operations import Result as Result
from harness.protocols.operations import Script as Script
from harness.protocols.operations import Workload as Workload
from harness.protocols.operations import completion as completion
from harness.protocols.operations import invoke as invoke
from harness.protocols.operations import raised as raised
from harness.protocols.runs import DONE as DONE
from harness.protocols.runs import FAILED as FAILED
from harness.protocols.runs import MARKS as MARKS
from harness.protocols.runs import NULL as NULL
from harness.protocols.runs import Bits as Bits
from harness.protocols.runs import Bools as Bools
from harness.protocols.runs import Deliveries as Deliveries
from harness.protocols.runs import Facts as Facts
from harness.protocols.runs import FaultWindow as FaultWindow
from harness.protocols.runs import Gaps as Gaps
from harness.protocols.runs import Int32s as Int32s
from harness.protocols.runs import Ints as Ints
from harness.protocols.runs import Lists as Lists
from harness.protocols.runs import Operations as Operations
from harness.protocols.runs import PartitionEnd as PartitionEnd
from harness.protocols.runs import Promises as Promises
from harness.protocols.runs import Reads as Reads
from harness.protocols.runs import ScriptedFault as ScriptedFault
from harness.protocols.runs import Texts as Texts
from harness.protocols.runs import Writes as Writes
from harness.protocols.systems import COMMAND as COMMAND
from harness.protocols.systems import EXEC as EXEC
from harness.protocols.systems import JSON as JSON
from harness.protocols.systems import GuestTarget as GuestTarget
from harness.protocols.systems import LogLines as LogLines
from harness.protocols.systems import SettingHelp as SettingHelp
from harness.protocols.systems import Target as Target
from harness.protocols.systems import Unsupported as Unsupported

# Set so, and the imports written so, that every name stands here once for Python and for mypy.
globals()["__all__"] = [
    name
    for name, thing in globals().items()
    if not (name.startswith("_") or name == "annotations" or isinstance(thing, _Module))
]
