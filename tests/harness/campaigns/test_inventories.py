"""Each worker of a campaign has the hosts of an inventory to itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.campaigns.worker import OnInventories
from harness.errors import HarnessFailure

FIRST, SECOND = Path("a.toml"), Path("b.toml")
JUDGE: Any = None


@dataclass
class Begun:
    """A worker's process that lives until `alive` is set to False."""

    inventory: Path
    alive: bool = True

    def is_alive(self) -> bool:
        return self.alive


def started(start: OnInventories, number: int) -> Any:
    return start(number, Path("runs"), JUDGE)[0]


@pytest.fixture
def start() -> OnInventories:
    def begin(*_: object, client: object, inventory: Path) -> Any:
        return Begun(inventory), None

    return OnInventories((FIRST, SECOND), begin=begin)


def test_workers_share_no_inventory(start: OnInventories) -> None:
    assert [started(start, n).inventory for n in (1, 2)] == [FIRST, SECOND]
    with pytest.raises(HarnessFailure, match="every inventory has a worker"):
        started(start, 3)


def test_another_worker_takes_the_hosts_of_a_dead_one(start: OnInventories) -> None:
    first, _ = started(start, 1), started(start, 2)
    first.alive = False
    assert started(start, 3).inventory == FIRST
