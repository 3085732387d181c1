"""The journal: what is announced is on disk first, and windows tell what was proven."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.errors import EnvironmentFailure, HistoryError
from harness.faults.journal import NOT_COUNTED, Journal, OpenActs, open_acts, windows
from harness.faults.records import NetRecord, Peer, ProcessRecord, ProtocolAct, ProtocolRecord
from tests.fixtures.small_disk import no_file_above

KILL = ProcessRecord(node="b1", fault="cut", signal="KILL", pid=7)
CUT = NetRecord(node="b1", fault="cut", peers=(Peer(name="b2", address="198.18.0.12"),))


def _play(
    journal: Journal,
    *,
    proofs: tuple[bool, ...] = (True, True),
    heal: bool = True,
    counted: bool = True,
) -> int:
    journal.write("step", fault="cut", nemesis="partition", nodes=["b1"], met=None, why="")
    n = journal.intent(fault="cut", lever="net", record=CUT)
    journal.write("done", n=n)
    journal.write("on", fault="cut")
    for phase, proven in zip(("held", "undone"), proofs, strict=False):
        met = 7 if phase == "held" and counted else None
        journal.write("proof", fault="cut", phase=phase, proven=proven, evidence=["seen"], met=met)
    if heal:
        journal.write("undone", n=n)
        journal.write("healed", fault="cut")
    return n


def test_a_window_has_its_times_and_its_proof(journal: Journal, path: Path) -> None:
    _play(journal)
    (window,) = windows(path)
    assert (window.id, window.nemesis, window.nodes) == ("cut", "partition", ["b1"])
    assert (window.begun_s, window.from_s, window.to_s) == (1.0, 3.0, 7.0)
    assert window.proven
    assert window.unproven == ""
    assert window.evidence == ["seen", "seen"]


@pytest.mark.parametrize("proofs", [(True, False), ()])
def test_a_false_proof_or_none_makes_it_unproven(
    journal: Journal, path: Path, proofs: tuple[bool, ...]
) -> None:
    _play(journal, proofs=proofs)
    (window,) = windows(path)
    assert window.proven is False
    assert window.unproven == ("seen" if proofs else "no probe asked while it was in force")


@pytest.mark.parametrize(
    ("met", "proven", "touched"),
    [
        ((0, 7, None), True, 7),
        ((7, 7, None), True, 7),
        ((0, 0, None), False, 0),
        ((None, None, None), True, None),
        ((0,), False, 0),
        ((3,), True, 3),
    ],
    ids=["met later", "met at once", "never met", "not counted", "broke off unmet", "broke off"],
)
def test_a_fault_is_proven_when_it_met_something(
    journal: Journal,
    path: Path,
    met: tuple[int | None, ...],
    proven: bool,
    touched: int | None,
) -> None:
    """Whatever the probes say of the mechanism; null: the levers do not count it."""
    journal.write("step", fault="cut", nemesis="partition", nodes=["b1"], met=None, why="")
    lever, record = ("process", KILL) if met == (None, None, None) else ("net", CUT)
    journal.intent(fault="cut", lever=lever, record=record)
    journal.write("on", fault="cut")
    for phase, each in zip(("applied", "held", "undone"), met, strict=False):
        journal.write("proof", fault="cut", phase=phase, proven=True, evidence=[], met=each)
    (window,) = windows(path)
    assert (window.proven, window.touched) == (proven, touched)
    assert window.unproven == ("" if proven else "it affected nothing of the system")


@pytest.mark.parametrize(
    ("act", "met", "proof"),
    [("count", 7, "control"), ("reset", 7, "proven"), ("count", 0, "NOT PROVEN")],
)
def test_what_passes_everything_on_is_a_control_and_no_proof(
    journal: Journal, path: Path, act: ProtocolAct, met: int, proof: str
) -> None:
    """Also in journals of versions that called it proven: its record says so."""
    journal.write("step", fault="f", nemesis="protocol", nodes=["b1"], met=None, why="")
    record = ProtocolRecord(node="b1", fault="f", act=act, side="request")
    journal.intent(fault="f", lever="protocol", record=record)
    journal.write("on", fault="f")
    journal.write("proof", fault="f", phase="held", proven=True, evidence=[], met=met)
    (window,) = windows(path)
    assert window.proof == proof
    assert (window.proven, window.control) == (proof == "proven", proof == "control")
    assert window.doubtful is (proof == "NOT PROVEN")


STEP = {"type": "step", "fault": "cut", "nemesis": "kill", "nodes": [], "met": None, "time_ns": 0}
INTENT = {"type": "intent", "n": 1, "fault": "cut", "lever": "process"}
ON = {"type": "on", "fault": "cut", "time_ns": 1}
PROOF = {"type": "proof", "fault": "cut", "phase": "applied", "proven": True, "evidence": []}
HEALED = {"type": "healed", "fault": "cut", "time_ns": 2}
FAILED = {"type": "failed", "n": 1, "what": "apply", "error": "no"}


@pytest.mark.parametrize(
    "lines",
    [
        [STEP, INTENT, PROOF],
        [STEP, INTENT, ON, {**PROOF, "phase": "undone"}],
        [STEP, INTENT, ON, {**PROOF, "met": -3}],
        [STEP, INTENT, ON, {**PROOF, "proven": False}, STEP, INTENT, ON, PROOF],
        [STEP, ON, PROOF],
        [STEP, INTENT, FAILED, ON, PROOF],
        [STEP, INTENT, ON, PROOF, HEALED],
        [STEP, {**INTENT, "lever": "net"}, ON, PROOF],
    ],
    ids=[
        "never on",
        "seen only when it was undone",
        "met less than nothing",
        "begun twice",
        "no act was announced",
        "an act failed",
        "not looked at when it was undone",
        "what met it was not counted",
    ],
)
def test_what_was_not_seen_while_it_was_on_is_unproven(
    path: Path, lines: list[dict[str, Any]]
) -> None:
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    assert windows(path)[0].proven is False
    undone = [HEALED, {**PROOF, "phase": "undone"}]
    undo_failed = {**FAILED, "what": "undo"}
    good = [STEP, INTENT, ON, PROOF, *undone]
    for proven in (good[:4], good, [*good[:4], undo_failed, *undone], _counted(good)):
        path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in proven))
        assert windows(path)[0].proven is True


def _counted(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same fault by a lever that counts what meets it."""
    return [
        {**line, **({"lever": "net"} if line is INTENT else {"met": 2} if line is PROOF else {})}
        for line in lines
    ]


@pytest.mark.parametrize(
    "line",
    [
        {**ON, "time_ns": "1"},
        {**ON, "time_ns": None},
        {**ON, "fault": ["cut"]},
        {**PROOF, "proven": "false"},
        {**PROOF, "met": "0"},
        {**PROOF, "met": True},
        {key: value for key, value in PROOF.items() if key != "proven"},
        {**PROOF, "evidence": None},
        {**PROOF, "evidence": "seen"},
        {**PROOF, "evidence": [1]},
        {**PROOF, "phase": "before"},
        {key: value for key, value in PROOF.items() if key != "phase"},
        {key: value for key, value in INTENT.items() if key != "lever"},
    ],
)
def test_a_line_that_is_not_as_it_is_written_is_refused(path: Path, line: dict[str, Any]) -> None:
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in [STEP, ON, line]))
    with pytest.raises(HistoryError, match="is not a journal as ackloss writes it") as caught:
        windows(path)
    assert caught.value.file == f"{path}:3"


def test_a_journal_of_before_proves_no_cut(journal: Journal, path: Path) -> None:
    """Its proofs have no `met`: of the packets that were dropped, all may have been the probe's."""
    _play(journal, counted=False)
    (window,) = windows(path)
    assert (window.proven, window.touched) == (False, None)
    assert window.evidence[-1] == NOT_COUNTED


def test_what_was_not_undone_is_open(journal: Journal, path: Path) -> None:
    n = _play(journal, heal=False)
    assert [act.n for act in open_acts(path).acts] == [n]
    assert windows(path)[0].to_s is None
    journal.write("undone", n=n)
    assert open_acts(path) == OpenActs()


def test_an_act_that_the_disk_has_no_room_for_is_not_announced(
    journal: Journal, path: Path
) -> None:
    """And of its line nothing is left, to which the next would be appended."""
    n = _play(journal, heal=False)
    before = path.read_bytes()
    with (
        no_file_above(path.stat().st_size + 60),
        pytest.raises(EnvironmentFailure, match="journal of faults"),
    ):
        journal.intent(fault="cut", lever="process", record=KILL)
    assert path.read_bytes() == before
    journal.write("undone", n=n)
    assert open_acts(path) == OpenActs()


def test_half_a_last_line_may_announce_an_act(journal: Journal, path: Path) -> None:
    """As an older version leaves it on a full disk: it acts all the same."""
    journal.write("step", fault="cut", nemesis="pause", nodes=["b1"], met=None, why="")
    with path.open("ab") as stream:
        stream.write(b'{"type":"intent","n":1,"fault":"cut","lever":"pause","token":{')
    assert open_acts(path) == OpenActs(unreadable=[f"{path}:2: is cut off"])


def test_a_skipped_step_is_reported_and_unproven(journal: Journal, path: Path) -> None:
    journal.write("skip", fault="isolate", nemesis="partition", met=False, why="never came")
    (window,) = windows(path)
    assert (window.from_s, window.met, window.proven) == (None, False, False)


def test_a_last_line_that_a_crash_cut_off_is_left_out(journal: Journal, path: Path) -> None:
    _play(journal)
    with path.open("ab") as stream:
        stream.write(b'{"type": "healed", "fau')
    assert windows(path)[0].proven is True
