"""Logs of transactions of a real run (3.9.5) in which z2 was wiped, z1 was elected without what z2
and z3 had acknowledged, and z3 came back too late (`losses/zookeeper-held-3.9`)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import targets.zookeeper.transaction_log as logs
from harness.history.run_folder import RunDir
from harness.protocols import UNEXPLAINED, Completed, Explanation
from harness.protocols.explanations import WITHOUT
from targets.zookeeper.transaction_log import Damaged, copied, held, transactions
from tests.targets.test_explain_servers import LOSSES, STARTS, Change, counted, explained

NAME = "zookeeper-held-3.9"
KEPT = LOSSES / NAME
LOST = json.loads((LOSSES / f"{NAME}.json").read_text())["lost"]["value"]
RAW = (KEPT / "z3/log.100000001").read_bytes()


def read(raw: bytes) -> list[int]:
    return list(transactions(raw))


def with_logs(folder: Path, change: Change = lambda case: None) -> list[Explanation]:
    shutil.copytree(KEPT, folder / "nodes")
    return explained(NAME, folder, change)


def held_by(found: list[Explanation]) -> dict[str | None, tuple[str, str]]:
    (each,) = found
    return {f.node: (f.text, f.place) for f in each.facts if f.kind == "held by"}


def test_every_transaction_of_a_log_is_read() -> None:
    assert read(RAW) == [*range(0x100000001, 0x1000001A6)]


def test_a_torn_tail_was_being_written() -> None:
    every = read(RAW)
    for cut in (1, 20, len(RAW) // 2):
        some = read(RAW[:-cut])
        assert some == every[: len(some)] != every
    assert read(b"") == read(RAW[:16]) == read(RAW[:20]) == []


@pytest.mark.parametrize(
    ("at", "byte", "why"),
    [
        (-3, b"\xff", "checksum"),
        (-1, b"X", "checksum"),
        (24, b"\x7f", "bytes long"),
        (0, b"Y", "does not begin"),
    ],
)
def test_what_was_not_written_so_is_not_believed(at: int, byte: bytes, why: str) -> None:
    raw = bytearray(RAW)
    raw[at % len(raw)] = byte[0]
    with pytest.raises(Damaged, match=why):
        read(bytes(raw))
    with pytest.raises(Damaged, match="bytes long"):
        read(RAW + b"\0" * 20 + b"B")


def test_zeros_do_not_leave_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In files of 64 MiB, as servers allocate them."""
    folder = tmp_path / "version-2"
    folder.mkdir()
    sent = list[int]()

    class Here:
        def admin(self, argv: list[str], *, timeout_s: float) -> Completed:
            done = subprocess.run(argv, capture_output=True, timeout=timeout_s, check=False)
            sent.append(len(done.stdout))
            return Completed(done.returncode, done.stdout.decode())

    here: Any = Here()
    monkeypatch.setattr(logs, "DATA", tmp_path)
    assert copied(here) == {}
    (folder / "snapshot.0").write_bytes(b"x")
    written = {"log.100000001": RAW, "log.200000001": RAW[:700]}
    for name, raw in written.items():
        with (folder / name).open("wb") as file:
            file.write(raw)
            file.seek(64 * 1024 * 1024 - 1)
            file.write(b"\0")
    assert copied(here) == written
    assert max(sent) < 200_000
    monkeypatch.setattr(logs, "BYTES_AT_MOST", 20_000)
    assert copied(here) == {}


def test_who_still_has_what_was_lost_is_said_with_its_place(tmp_path: Path) -> None:
    found = with_logs(tmp_path)
    assert counted(found) == {"disk-wiped": len(LOST)}
    assert held_by(found) == {
        "z1": (
            "z1 has none of them in its own log: 0x1000000b0 is followed by 0x200000001",
            "nodes/z1/log.200000001:0x200000001",
        ),
        "z2": (
            "z2 has none of them in its own log, which begins at 0x200000001",
            "nodes/z2/log.200000001:0x200000001",
        ),
        "z3": (
            f"z3 has {len(LOST)} of them in its own log, up to 0x100000195",
            "nodes/z3/log.100000001:0x100000195",
        ),
    }
    texts = [fact.text for fact in found[0].facts if fact.kind == "truncated"]
    assert "z3 took a snapshot of its leader at zxid 0x2000000b1 (SNAP)" in texts


def test_an_old_folder_is_explained_from_servers_logs(tmp_path: Path) -> None:
    found = explained(NAME, tmp_path)
    assert counted(found) == {"disk-wiped": len(LOST)}
    assert held_by(found) == {}


def test_without_a_loss_nothing_is_said(tmp_path: Path) -> None:
    nothing: dict[str, list[int]] = {"value": [], "invoke_ns": [], "complete_ns": []}
    assert with_logs(tmp_path, lambda case: case.update(lost=nothing)) == []
    assert [each.node for each in held(RunDir(tmp_path))] == ["z1", "z2", "z3"]


def test_a_damaged_log_may_have_had_more(tmp_path: Path) -> None:
    shutil.copytree(KEPT, tmp_path / "nodes")
    (tmp_path / "nodes/z3/log.100000001").write_bytes(RAW[:10_000] + b"?" + RAW[10_001:])
    text, _ = held_by(explained(NAME, tmp_path))["z3"]
    assert text.startswith("z3 has none of them in its own log: ")
    assert "there may be more: log.100000001: the transaction at byte 9,9" in text


def test_a_server_that_still_has_them_has_not_lost_them(tmp_path: Path) -> None:
    """Without a word of z3, only its log of transactions says that its disk did not lose them."""

    def silent(case: dict[str, Any]) -> None:
        case["faults"], case["logs"]["z3/zookeeper.log"] = [], []
        for lines in case["logs"].values():
            for number in reversed([n for n, line in enumerate(lines) if STARTS.search(line)][1:]):
                del lines[number]

    assert counted(explained(NAME, tmp_path / "alone", silent)) == {UNEXPLAINED: len(LOST)}
    (tmp_path / "logs").mkdir()
    assert counted(with_logs(tmp_path / "logs", silent)) == {WITHOUT: len(LOST)}
