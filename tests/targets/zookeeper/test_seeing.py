"""Who leads: from a server's status and its table of connections."""

from __future__ import annotations

import pytest

from harness.faults import selectors
from harness.protocols import PartitionView
from harness.protocols.faults import Since
from harness.run.observer import merge
from targets.zookeeper import ZooKeeper, asking
from targets.zookeeper.asking import Shown, Status
from tests.targets.zookeeper.test_layout import plan_of

VOCABULARY = ZooKeeper().vocabulary()

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"


def line(number: int, here: str, there: str, state: str) -> str:
    """A line of /proc/net/tcp."""

    def end(text: str) -> str:
        address, port = text.split(":")
        octets = "".join(f"{int(part):02X}" for part in reversed(address.split(".")))
        return f"{octets}:{int(port):04X}"

    return f"{number:4}: {end(here)} {end(there)} {state} 00000000:00000000 00:00000000 0 0 0\n"


def output(*lines: tuple[str, str, str], epoch: str = "3") -> str:
    table = HEAD + "".join(line(n, *each) for n, each in enumerate(lines))
    return (
        "==> /var/lib/ackloss/addresses <==\n"
        "z1 198.18.0.11\nz2 198.18.0.12\nz3 198.18.0.13\no1 198.18.0.14\n\n"
        f"==> /var/lib/ackloss/data/version-2/currentEpoch <==\n{epoch}\n"
        f"==> /proc/net/tcp <==\n{table}"
    )


def test_a_leader_holds_connections_from_its_followers_on_its_port() -> None:
    shown = asking.shown_by(
        output(
            ("198.18.0.13:2888", "198.18.0.11:40000", "01"),
            ("198.18.0.13:2888", "198.18.0.14:40000", "01"),
            ("198.18.0.13:2888", "198.18.0.12:40000", "06"),  # was closed
            ("198.18.0.13:2181", "198.18.0.12:40000", "01"),  # a client
            ("198.18.0.13:2888", "198.18.0.99:40000", "01"),  # nobody of ours
            ("0.0.0.0:2888", "0.0.0.0:0", "0A"),
        )
    )
    assert shown == Shown(epoch=3, leaders=(), followers=("o1", "z1"))


def test_a_follower_holds_a_connection_to_its_leader() -> None:
    shown = asking.shown_by(output(("198.18.0.11:40000", "198.18.0.13:2888", "01"), epoch="x"))
    assert shown == Shown(epoch=None, leaders=("z3",), followers=())


def test_files_that_are_not_there_show_nothing() -> None:
    said = "tail: cannot open '/proc/net/tcp' for reading: No such file or directory\n"
    assert asking.shown_by(said) == Shown(epoch=None, leaders=(), followers=())


def viewed(mode: str | None, shown: Shown, figures: dict[str, str] | None = None) -> PartitionView:
    status = Status(mode=mode, zxid=(7 << 32) + 5)
    view = asking.view("z2", plan_of(ensemble={"observers": 1}), status, figures or {}, shown)
    (seen,) = view.partitions
    assert view.authority == (seen.leader == "z2")
    return seen


FOLLOWED = Shown(epoch=3, leaders=(), followers=("o1", "z1", "z3"))


def test_a_leader_names_the_followers_that_are_in_sync() -> None:
    seen = viewed("leader", FOLLOWED, {"synced_followers": "2"})
    assert (seen.leader, seen.leader_epoch, seen.members) == ("z2", 3, ("z1", "z2", "z3"))
    assert seen.replicas == ("z1", "z2", "z3")


@pytest.mark.parametrize(
    ("figures", "in_sync"),
    [({}, None), ({"synced_followers": "1"}, 2), ({"synced_followers": ""}, None)],
)
def test_where_nobody_knows_which_are_in_sync_the_leader_is_the_only_member(
    figures: dict[str, str], in_sync: int | None
) -> None:
    seen = viewed("leader", FOLLOWED, figures)
    assert (seen.members, seen.in_sync) == (("z2",), in_sync)


def test_a_follower_names_its_leader_and_no_members() -> None:
    seen = viewed("follower", Shown(epoch=3, leaders=("z1",), followers=()))
    assert (seen.leader, seen.leader_epoch, seen.members, seen.in_sync) == ("z1", 3, (), None)


def test_a_server_that_is_alone_is_in_sync_with_itself() -> None:
    assert viewed("standalone", Shown(epoch=3, leaders=(), followers=())).in_sync == 1


@pytest.mark.parametrize(
    ("condition", "counted", "uncounted"),
    [
        ("quorum lost", False, False),
        ("in sync == 1", False, False),
        ("in sync < 3", False, False),
        ("in sync == 4", True, False),
        ("in sync > 3", True, False),
        ("fully replicated", False, False),
    ],
)
def test_unknown_members_satisfy_no_condition(
    condition: str, counted: bool, uncounted: bool
) -> None:
    """Of four followers that are connected three are in sync, or nobody knows how many; nor does
    a follower whose leader does not answer."""
    plan, status = plan_of(ensemble={"servers": 5}), Status(mode="leader", zxid=7 << 32)
    shown = Shown(epoch=3, leaders=(), followers=("z1", "z3", "z4", "z5"))
    views = [
        asking.view("z2", plan, status, {"synced_followers": "3"}, shown),
        asking.view("z2", plan, status, {}, shown),
        asking.view(
            "z1",
            plan,
            Status(mode="follower", zxid=7 << 32),
            {},
            Shown(epoch=3, leaders=("z2",), followers=()),
        ),
    ]
    seen = [merge(0, [(0, view)]) for view in views]
    wanted = selectors.parse_condition(condition, VOCABULARY, key="when")
    held = [
        wanted.holds(now, Since(nodes=("z5",), situation=now, replication_factor=5)) for now in seen
    ]
    assert held == [counted, uncounted, uncounted]


@pytest.mark.parametrize(
    ("mode", "leaders"), [("follower", ()), ("follower", ("z1", "z3")), (None, ("z1",))]
)
def test_a_server_whose_leader_is_not_clear_or_without_a_quorum_names_none(
    mode: str | None, leaders: tuple[str, ...]
) -> None:
    assert viewed(mode, Shown(epoch=3, leaders=leaders, followers=())).leader is None


def test_the_epoch_is_that_of_the_last_transaction_where_the_file_is_missing() -> None:
    assert viewed("standalone", Shown(epoch=None, leaders=(), followers=())).leader_epoch == 7
