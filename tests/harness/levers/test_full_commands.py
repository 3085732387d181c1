"""What the full lever refuses to fill, and a disk that does not stay full."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.errors import HarnessFailure
from harness.faults.records import FullRecord
from harness.levers.disk import FullLever, unbounded
from harness.protocols import Completed
from tests.fixtures.dry_run import DryRunNode

DATA = "/var/lib/ackloss/data"
GIB = 1 << 30


class Storing(DryRunNode):
    """A node that stores on a disk of some size, mounted somewhere."""

    mounted_at, size_bytes, free_bytes = DATA, 128 << 20, 0

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        if argv[0] == "df":
            head = "Mounted on 1B-blocks Avail"
            return Completed(0, f"{head}\n{self.mounted_at} {self.size_bytes} {self.free_bytes}\n")
        return super().admin(argv, timeout_s=timeout_s)


class GivesBack(Storing):
    """The system gives back two blocks right after the disk was seen full for the first time."""

    was_full = given_back = False

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        if argv[0] == "dd" and self.was_full:
            self.given_back = True  # and the lever takes them
        if argv[0] == "df":
            self.free_bytes = 8192 if self.was_full and not self.given_back else 0
            self.was_full = bool(self.commands)
        return super().admin(argv, timeout_s=timeout_s)


@pytest.fixture
def node() -> Storing:
    return Storing("b1", frozenset({"broker"}), "198.18.0.11")


RECORD = FullRecord(node="b1", fault="x", folder="data", pid=7)


def test_it_takes_what_the_system_gives_back_as_the_disk_becomes_full() -> None:
    node = GivesBack("b1", frozenset({"broker"}), "198.18.0.11")
    FullLever({"b1": node}).apply(RECORD)
    assert len([command for command in node.commands if "dd " in command]) == 6


def test_a_disk_that_does_not_stay_full_is_an_error(
    node: Storing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.levers.disk._FULL_S", 0.5)
    monkeypatch.setattr(Storing, "free_bytes", 512)
    with pytest.raises(HarnessFailure, match="b1: 512 bytes stay free"):
        FullLever({"b1": node}).apply(RECORD)


@pytest.mark.parametrize(
    ("mounted_at", "size_bytes", "why"),
    [
        ("/var/lib/ackloss", 250 * GIB, "b1: what it stores lies on a disk of 250.0 GiB that oth"),
        ("/", GIB // 2, "b1: what it stores lies on a disk of 0.5 GiB that others use too"),
        (DATA, 250 * GIB, "b1: what it stores lies on a disk of 250.0 GiB"),
    ],
)
def test_a_disk_that_others_use_or_that_is_large_is_never_filled(
    node: Storing, mounted_at: str, size_bytes: int, why: str
) -> None:
    node.mounted_at, node.size_bytes = mounted_at, size_bytes
    assert (unbounded(node) or "").startswith(why)
    with pytest.raises(HarnessFailure, match=why):
        FullLever({"b1": node}).apply(RECORD)
    assert node.commands == []
