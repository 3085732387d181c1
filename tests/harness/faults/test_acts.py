"""What a nemesis returns is refused, with its name, before any of it is journalled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from harness.errors import HarnessFailure
from harness.faults.injection import chosen
from harness.faults.records import ProcessRecord
from harness.levers.process import PauseLever, ProcessLever
from harness.protocols import Act, Lever, Nemesis, Node, Select, Vocabulary
from tests.fixtures.dry_run import DryRunNode

NODES: dict[str, Node] = {
    name: DryRunNode(name, frozenset({"replica"}), f"198.18.0.1{name[1]}") for name in ("n1", "n2")
}
LEVERS: dict[str, Lever[Any]] = {"process": ProcessLever(NODES), "pause": PauseLever(NODES)}


@dataclass(frozen=True)
class Pull(Nemesis):
    """Does what it is made with."""

    returns: Callable[[Sequence[Node], Select], Any]
    plugin: ClassVar[str] = "pull"

    def requires(self, node: str) -> Any:
        return self.returns([NODES["n1"]], lambda _: [])

    def acts(self, nodes: Sequence[Node], select: Select) -> Any:
        return self.returns(nodes, select)


def kill(node: Node, /, **fields: Any) -> Act:
    known: dict[str, Any] = {"node": node.name, "signal": "KILL", "pid": node.pid()}
    return Act("process", ProcessRecord(**(known | fields)))


def acts_of(returns: Callable[[Sequence[Node], Select], Any]) -> list[Act]:
    return chosen(
        Pull(returns),
        list(NODES.values()),
        lambda _: [NODES["n2"]],
        levers=LEVERS,
        among=NODES,
        vocabulary=Vocabulary(owner="it"),
    )


@pytest.mark.parametrize(
    "returns",
    [
        lambda nodes, _: [kill(node) for node in nodes],
        lambda nodes, _: (kill(node) for node in nodes),
        lambda _, select: [kill(node) for node in select("one")],
        lambda _, select: [kill(NODES["n1"], node="n1,n2")],
        lambda _, __: [],
    ],
    ids=["list", "generator", "selected", "several nodes", "none"],
)
def test_acts_that_levers_can_do_are_accepted(returns: Any) -> None:
    acts = acts_of(returns)
    assert acts == list(returns(list(NODES.values()), lambda _: [NODES["n2"]]))


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (kill(NODES["n1"])._replace(lever="kill"), "no lever 'kill' here; there are: process, pa"),
        (kill(NODES["n1"]).record, "a ProcessRecord is not an Act(lever, record)"),
        (kill(NODES["n1"], node="n9"), "there is no node 'n9'"),
    ],
)
def test_an_act_that_no_lever_can_do_is_refused(act: Any, why: str) -> None:
    with pytest.raises(HarnessFailure) as refused:
        acts_of(lambda *_: [act])
    assert refused.value.what.startswith("the nemesis 'pull': acts(): ")
    assert why in refused.value.what


def test_a_selector_that_the_target_does_not_have_is_refused() -> None:
    with pytest.raises(HarnessFailure) as refused:
        acts_of(lambda _, select: select("leader"))
    assert str(refused.value).startswith(
        "the nemesis 'pull': select(): 'leader' is not a selector of it; it has: all, members, one"
    )
