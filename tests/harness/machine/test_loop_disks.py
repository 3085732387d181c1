"""Disks that can lose power, in this kernel: a file that was fsynced, and one that was not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.errors import EnvironmentFailure, HarnessFailure
from harness.machine import loop_disks
from harness.machine.loop_disks import CANARY, LoopDisk
from harness.protocols import Stored

RUN = "r1"

pytestmark = pytest.mark.docker  # not of Docker: it needs root and loop devices, as those tests do


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopDisk]:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "state of a run"))
    made = LoopDisk(loop_disks.disks_of(RUN) / "n1", "data")
    made.make(64)
    yield made
    loop_disks.remove(RUN)


def write(path: Path, content: bytes, *, sync: bool) -> None:
    with path.open("ab") as file:
        file.write(content)
        file.flush()
        if sync:
            os.fsync(file.fileno())


def test_what_was_fsynced_is_left_and_nothing_else(disk: LoopDisk) -> None:
    at = disk.mounted_at
    write(at / "synced", b"x" * 5000, sync=True)
    write(at / "synced", b"y" * 5000, sync=False)
    write(at / "unsynced", b"z" * 5000, sync=False)
    assert disk.why_not() is None
    disk.lose_power("f")
    assert (at / "synced").read_bytes() == b"x" * 5000
    assert not (at / "unsynced").exists()
    lost = disk.power_loss("f")
    assert lost is not None
    assert {path: stored.size_bytes for path, stored in lost.before.items()} == {
        "synced": 10_000,
        "unsynced": 5000,
    }
    assert lost.after == {"synced": Stored(size_bytes=5000, allocated_bytes=5120)}
    assert (lost.canary_synced, lost.canary_written, lost.canary_left) == (5000, 10_000, 5000)
    assert lost.device.startswith("/dev/loop")


def test_what_was_flushed_is_left(disk: LoopDisk) -> None:
    write(disk.mounted_at / "unsynced", b"z" * 5000, sync=False)
    disk.flush()
    disk.lose_power("f")
    assert (disk.mounted_at / "unsynced").stat().st_size == 5000


def test_power_is_lost_once_for_each_fault(disk: LoopDisk) -> None:
    disk.lose_power("f")
    write(disk.mounted_at / "unsynced", b"z", sync=False)
    disk.lose_power("f")
    assert (disk.mounted_at / "unsynced").exists()
    disk.lose_power("g")
    assert not (disk.mounted_at / "unsynced").exists()
    assert disk.power_losses() == ["f", "g"]
    disk.restore("f")
    assert disk.power_losses() == ["g"]


def test_a_file_system_that_is_not_ours_is_never_shut_down(disk: LoopDisk, tmp_path: Path) -> None:
    other = LoopDisk(tmp_path / "other", "data")
    other.mounted_at.mkdir(parents=True)
    with pytest.raises(HarnessFailure, match="nothing is mounted at"):
        other.lose_power("f")
    subprocess.run(["mount", "-t", "tmpfs", "none", other.mounted_at], check=True)
    try:
        (other.mounted_at / "x").write_bytes(b"x")
        with pytest.raises(HarnessFailure, match="none is not a loop device over"):
            other.lose_power("f")
        assert (other.mounted_at / "x").exists()
    finally:
        subprocess.run(["umount", other.mounted_at], check=True)
    subprocess.run(["mount", "--bind", disk.mounted_at, other.mounted_at], check=True)
    try:
        with pytest.raises(HarnessFailure, match=r"/dev/loop\d+ is not a loop device over"):
            other.lose_power("f")
    finally:
        subprocess.run(["umount", other.mounted_at], check=True)


def test_an_open_file_is_waited_for(disk: LoopDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_disks, "_BUSY_S", 0.2)
    with (disk.mounted_at / CANARY).open(), pytest.raises(HarnessFailure, match="umount failed"):
        disk.lose_power("f")


def test_a_new_process_removes_what_a_killed_one_left(disk: LoopDisk) -> None:
    code = f"from harness.machine import loop_disks; print(loop_disks.remove({RUN!r}))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    assert loop_disks.runs_with_disks() == {RUN}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "['disk r1/n1']"
    assert not disk.folder.exists()
    assert str(disk.folder) not in Path("/proc/self/mountinfo").read_text()
    losetup = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True)
    assert str(disk.image) not in losetup.stdout
    assert loop_disks.remove(RUN) == []


def test_disks_below_a_link_lose_power_and_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "link"))
    made = LoopDisk(loop_disks.disks_of(RUN) / "n1", "data")
    made.make(64)
    try:
        assert made.why_not() is None
        made.lose_power("f")
        assert loop_disks.remove(RUN) == ["disk r1/n1"]
        assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()
        assert not loop_disks.runs_with_disks()
    finally:
        subprocess.run(["umount", "-R", tmp_path / "real/disks/r1/n1/node"], check=False)


def test_nothing_is_deleted_on_a_disk_that_stays_mounted(
    disk: LoopDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as changed:
        changed.setattr(loop_disks, "_run", lambda *_: None)
        with pytest.raises(HarnessFailure, match=f"{disk.mounted_at} is still mounted"):
            loop_disks.remove(RUN)
    assert (disk.mounted_at / CANARY).exists()


def test_a_loop_device_that_nothing_mounts_is_detached(disk: LoopDisk) -> None:
    subprocess.run(["umount", disk.mounted_at], check=True)
    subprocess.run(["losetup", "-f", disk.image], check=True)
    assert loop_disks.remove(RUN) == ["disk r1/n1"]
    losetup = subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True)
    assert str(disk.image) not in losetup.stdout


def test_without_root_there_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(EnvironmentFailure, match="only root may mount disks"):
        LoopDisk(tmp_path / "n1", "data").make(64)
