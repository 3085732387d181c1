"""What many nodes' answers amount to: the epoch first, then an authority, then how many say so."""

from __future__ import annotations

from harness.observer import merge
from harness.protocols import NodeView, PartitionView

NO_EPOCH = -1


def said(who: str, leader: str | None, epoch: int, *, authority: bool = False) -> NodeView:
    view = PartitionView(partition=0, leader=leader, leader_epoch=epoch, isr=("b1", "b2"))
    return NodeView(answered_by=who, partitions=(view,), authority=authority)


def leader(*views: NodeView) -> str | None:
    """Each told later than the one before."""
    return merge(9, list(enumerate(views))).partitions[0].leader


def test_an_authority_wins_over_many_that_tell_the_same_epoch() -> None:
    told = (said("z1", "b2", 3, authority=True), said("b1", "b1", 3), said("b3", "b1", 3))
    assert leader(*told) == "b2"
    assert leader(*reversed(told)) == "b2"
    assert leader(said("z1", None, 3, authority=True), said("b1", "b1", 3)) is None


def test_a_higher_epoch_wins_over_an_authority() -> None:
    """A ZooKeeper server may lag behind the others."""
    assert leader(said("b1", "b1", 4), said("z1", "b2", 3, authority=True)) == "b1"


def test_brokers_that_tell_no_epoch_do_not_outvote_it() -> None:
    told = (said("b1", "b1", NO_EPOCH), said("b2", "b1", NO_EPOCH))
    assert leader(said("z1", "b2", 0, authority=True), *told) == "b2"
    assert leader(*told) == "b1"


def test_among_authorities_most_win_then_the_latest() -> None:
    one, two = (said(who, "b1", 3, authority=True) for who in ("z1", "z2"))
    other = said("z3", "b2", 3, authority=True)
    assert leader(one, two, other) == "b1"
    assert leader(one, other) == "b2"
    assert leader(other, one) == "b1"
