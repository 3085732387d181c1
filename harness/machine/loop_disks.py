"""Disks of nodes that can lose power: an ext4 file system of its own for each, in a file of ours.

What a process has written without fsync is in the kernel's memory only. A disk loses power by
FS_IOC_SHUTDOWN with the flag that flushes nothing, not even the journal (ext4's NOLOGFLUSH), and is
unmounted and mounted again: what was fsynced is there, what was not is gone. Nothing is estimated,
and nothing depends on how a system stores. The kernel writes back by itself, though: nothing that
is younger than a commit of the journal, everything after `dirty_expire` (`written_back_s`).

A file of ours on each disk shows that it works: it is fsynced when the disk is made, and grows by
as much right before power is lost; afterwards the disk holds the fsynced half only.

    STATE/disks/RUN/NODE/   disk.img    the file system
                            node/       what the node sees as its data folder, mount events included
                            node/data/  where the disk is mounted
                            FAULT.json  what a loss of power did

Needs root, loop devices and mkfs.ext4. Only a mount whose device is a loop over our own file is
ever shut down. `remove` undoes all of a run from its folder alone, after any crash.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Final

from pydantic import TypeAdapter

from harness.errors import EnvironmentFailure, HarnessFailure
from harness.machine.files import replace_file, run_program
from harness.machine.state import state_dir
from harness.protocols import OwnDisk, PowerLoss, Stored

CANARY: Final = "ackloss-power.synced"
"""Our own file on each disk."""
CANARY_BYTES: Final = 5000

_SHUTDOWN: Final = 0x8004587D
_FLUSH_NOTHING: Final = struct.pack("I", 2)
_TOOLS: Final = ("mkfs.ext4", "mount", "umount", "losetup", "sync")
_COMMAND_S: Final = 60
_BUSY_S: Final = 10.0
_COMMIT_S: Final = 5.0
"""How often ext4 commits its journal, unless it is mounted otherwise."""


_REPORT: Final = TypeAdapter(PowerLoss)


def why_none() -> str | None:
    """None, or why this machine can have no such disks."""
    if os.geteuid() != 0:
        return "only root may mount disks"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"{missing[0]} is missing"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    return None


@dataclass(frozen=True)
class LoopDisk(OwnDisk):
    """The disk of one node, in a folder of its run, mounted as the folder `name` of the node."""

    folder: Path
    name: str

    @property
    def image(self) -> Path:
        return self.folder / "disk.img"

    @property
    def shared(self) -> Path:
        """The node's data folder on this machine."""
        return self.folder / "node"

    @property
    def mounted_at(self) -> Path:
        """Where the disk is mounted: a folder below the node's data folder."""
        return self.shared / self.name

    def make(self, size_mb: int) -> None:
        """Make the disk and mount it. Raises EnvironmentFailure, HarnessFailure."""
        if why := why_none():
            raise EnvironmentFailure(f"no disk can be made that loses power: {why}")
        at = self.mounted_at
        at.mkdir(parents=True)
        with self.image.open("wb") as file:
            file.truncate(size_mb << 20)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self.image))
        # Mounts come and go below a mount of ours, which containers follow.
        _run("mount", "--bind", str(self.shared), str(self.shared))
        _run("mount", "--make-shared", str(self.shared))
        self._mount()
        (at / "lost+found").rmdir()
        with (at / CANARY).open("wb") as file:
            file.write(bytes(CANARY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with _opened(at) as folder:
            os.fsync(folder)

    def flush(self) -> None:
        _run("sync", "-f", str(self.mounted_at))

    def why_not(self) -> str | None:
        """None, or why this disk may not lose power: it is not mounted from our own file."""
        device = _device_at(self.mounted_at)
        if device is None:
            return f"nothing is mounted at {self.mounted_at}"
        if _backing_file(device) != self.image:
            return f"{device} is not a loop device over {self.image}"
        if not (self.mounted_at / CANARY).exists():
            return f"our own file on {device} is gone"
        return None

    def lose_power(self, fault: str) -> None:
        if self._report(fault).exists():
            return
        if why := self.why_not():
            raise HarnessFailure(why)
        at = self.mounted_at
        device, before = _device_at(at) or "", _stored(at)
        with (at / CANARY).open("ab") as file:
            file.write(bytes(CANARY_BYTES))
        written = (at / CANARY).stat().st_size
        with _opened(at) as folder:  # which writes nothing more, not even what is in memory
            fcntl.ioctl(folder, _SHUTDOWN, _FLUSH_NOTHING)
        _until_done(partial(_run, "umount", str(at)))
        _until_done(self._refuse_attached)
        self._mount()
        report = PowerLoss(
            device=device,
            before=before,
            after=_stored(at),
            canary_synced=CANARY_BYTES,
            canary_written=written,
            canary_left=(at / CANARY).stat().st_size,
        )
        replace_file(self._report(fault), json.dumps(asdict(report)).encode())

    def power_loss(self, fault: str) -> PowerLoss | None:
        path = self._report(fault)
        return _REPORT.validate_json(path.read_bytes()) if path.exists() else None

    def power_losses(self) -> list[str]:
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def restore(self, fault: str) -> None:
        if _device_at(self.mounted_at) is None:
            self._mount()
        self._report(fault).unlink(missing_ok=True)

    def written_back_s(self) -> tuple[float, float]:
        """A commit of ext4's journal; the kernel's age of dirty pages and how often it looks."""

        def setting_s(name: str) -> float:
            return int(Path(f"/proc/sys/vm/dirty_{name}_centisecs").read_text()) / 100

        return _COMMIT_S, setting_s("expire") + setting_s("writeback")

    def _report(self, fault: str) -> Path:
        return self.folder / f"{fault}.json"

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self.image), str(self.mounted_at))

    def _refuse_attached(self) -> None:
        if self.image in (image for _, image in _loops()):
            raise HarnessFailure(f"{self.image} is still attached to a loop device")


def disks_of(run_id: str) -> Path:
    """The folder of a run's disks."""
    return state_dir() / "disks" / run_id


def runs_with_disks() -> set[str]:
    """The runs of which a disk is there."""
    folder = disks_of("x").parent
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def remove(run_id: str, *, dry_run: bool = False) -> list[str]:
    """Unmount, detach and delete the disks of a run; their names. Nothing may use them any more.
    Raises HarnessFailure when something stays."""
    folder = disks_of(run_id)
    if not folder.exists():
        return []
    names = [f"disk {run_id}/{path.name}" for path in sorted(folder.iterdir())]
    if dry_run:
        return names
    for at in reversed(_mounted_below(folder)):
        _until_done(partial(_run, "umount", str(at)))
    for device, image in _loops():
        if image.is_relative_to(folder):
            _run("losetup", "-d", device)
    if left := _mounted_below(folder):
        raise HarnessFailure(f"{left[-1]} is still mounted", hint="run `ackloss clean` again")
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise HarnessFailure(f"{folder} cannot be removed: {error.strerror}") from error
    return names


def _stored(folder: Path) -> dict[str, Stored]:
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.name != CANARY:
            stat = path.stat()
            found[str(path.relative_to(folder))] = Stored(
                size_bytes=stat.st_size, allocated_bytes=stat.st_blocks * 512
            )
    return found


def _mounts() -> Iterator[tuple[Path, str]]:
    """The mounts of this machine in their order: where, and of what."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        fields, _, rest = line.partition(" - ")
        at = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), fields.split()[4])
        yield Path(at), rest.split()[1]


def _mounted_below(folder: Path) -> list[Path]:
    """Where something is mounted in a folder, in the order of the mounts."""
    return [at for at, _ in _mounts() if at.is_relative_to(folder)]


def _device_at(at: Path) -> str | None:
    """The device that is mounted at a folder, the last if there are several."""
    found = [device for path, device in _mounts() if path == at]
    return found[-1] if found else None


def _loops() -> Iterator[tuple[str, Path]]:
    """The loop devices in use, each with its file."""
    for entry in Path("/sys/block").glob("loop*"):
        device = f"/dev/{entry.name}"
        if (image := _backing_file(device)) is not None:
            yield device, image


def _backing_file(device: str) -> Path | None:
    """The file of a loop device; `None` for another device."""
    try:
        text = Path(f"/sys/block/{Path(device).name}/loop/backing_file").read_text(encoding="utf-8")
    except OSError:
        return None
    return Path(text.strip())


def _until_done(act: Callable[[], None]) -> None:
    """Try again while a short-lived command on the node has a file open."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            return act()
        except HarnessFailure:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _run(*argv: str) -> None:
    # Ctrl-C must not end an undo.
    done = run_program(argv, timeout_s=_COMMAND_S, start_new_session=True)
    if done.returncode:
        output = (done.stderr or done.stdout).strip()[:300]
        raise HarnessFailure(f"{argv[0]} failed: {output}", hint="`ackloss clean` removes disks")


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)
