"""How pages describe a run of ZooKeeper."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.autopsy import dated_lines
from targets.zookeeper import LOG_LINES, ZooKeeper

LOG = b"[2026-11-23 01:52:48,123] INFO "


def test_the_size_is_in_servers() -> None:
    assert ZooKeeper().size({"ensemble": {"servers": 5, "observers": 1}}) == [
        "5 servers",
        "1 observer",
    ]
    assert ZooKeeper().size({"ensemble": {"servers": 1, "observers": 0}}) == ["1 server"]
    assert ZooKeeper().size({}) == []


def test_settings_of_the_ensemble_come_with_the_others() -> None:
    plan = {
        "ensemble": {"servers": 3, "forceSync": False, "tickTime": 500},
        "target": {"settings": {"preAllocSize": 100}},
    }
    server = ZooKeeper().stored_request(plan)["server"]
    assert server == {"forceSync": False, "tickTime": 500, "preAllocSize": 100}
    assert all(
        key in ZooKeeper().stored_request(plan)[group] for group, key in ZooKeeper().decisive()
    )


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (b"LEADING - LEADER ELECTION TOOK - 21 MS (o.a.z.server.quorum.Leader)", True),
        (b"Getting a diff from the leader 0x100000028 (o.a.z.server.quorum.Learner)", True),
        (b"Notification: my state:LOOKING; n.sid:1, n.state:LOOKING (FastLeaderElection)", False),
        (b"Creating new log file: log.100000001 (o.a.z.server.persistence.FileTxnLog)", False),
    ],
)
def test_lines_about_elections_and_syncing_are_shown(
    tmp_path: Path, line: bytes, shown: bool
) -> None:
    log = tmp_path / "zookeeper.log"
    log.write_bytes(LOG + line + b"\n")
    dated = [text for _, _, text in dated_lines(log, LOG_LINES.relevant.search)]
    assert shown == any(not LOG_LINES.internal.search(text) for text in dated)
