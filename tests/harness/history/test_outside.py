"""Folders of Jepsen's store, and the names of its histories."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import HistoryError
from harness.history.outside import histories, run_id_of


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Two runs of one test and one of another, with Jepsen's links."""
    for run in ("queue/20240101T000000.000Z", "queue/20240102T000000.000Z", "set/20240101T00Z"):
        folder = tmp_path / "store" / run
        folder.mkdir(parents=True)
        (folder / "history.edn").write_text("{}")
        (folder / "history.txt").touch()
    (tmp_path / "store/queue/latest").symlink_to("20240102T000000.000Z")
    (tmp_path / "store/current").symlink_to("queue/20240102T000000.000Z")
    return tmp_path / "store"


def test_a_folder_means_the_runs_in_it_once(store: Path) -> None:
    queue = [store / f"queue/2024010{n}T000000.000Z/history.edn" for n in (1, 2)]
    assert histories(store / "queue") == queue
    assert histories(store) == [*queue, store / "set/20240101T00Z/history.edn"]
    assert histories(queue[0].parent) == [queue[0]]
    assert histories(store / "queue/latest") == [store / "queue/latest/history.edn"]
    assert histories(queue[0]) == [queue[0]]


def test_a_history_is_named_by_its_test_and_time(store: Path) -> None:
    assert run_id_of(store / "queue/latest/history.edn") == "queue/20240102T000000.000Z"
    assert run_id_of(store / "other.edn") == "other"
    assert run_id_of(store / "ops.jsonl") == "ops"


def test_a_folder_without_a_history_says_what_it_has(store: Path) -> None:
    run = store / "set/20240101T00Z"
    (run / "history.edn").unlink()
    (run / "test.jepsen").touch()
    with pytest.raises(HistoryError) as caught:
        histories(run)
    assert str(caught.value) == (
        f"{run}: history.edn: holds no history.edn (history.txt and test.jepsen cannot be read); "
        "name a folder of Jepsen's store (store/<test>/<time>) that has one, or the file"
    )
    (run / "test.jepsen").unlink()
    (run / "history.txt").unlink()
    with pytest.raises(HistoryError, match=r"holds no history\.edn; name"):
        histories(run)
