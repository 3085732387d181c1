"""A cut is proven by packets of the system: what the net lever makes of its rules' counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

import pytest

from harness.faults.injection import NOTHING_MET, Faults, _Announced
from harness.faults.journal import Journal, windows
from harness.faults.records import NetRecord, Peer
from harness.levers.net import NetLever
from harness.protocols import Completed, FaultWindow
from tests.fixtures.dry_run import DryRunNode

SYSTEM, OWN = "ackloss/cut/b2", "ackloss/cut/b2/own"
RECORD = NetRecord(
    node="b1",
    fault="cut",
    peers=(Peer(name="b2", address="198.18.0.12"),),
    ports=(9092,),
    direction="in",
)


@dataclass
class Filtering(DryRunNode):
    """A node whose rules have counted these packets, by their comments; nobody answers."""

    packets: dict[str, int] = field(default_factory=dict)

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        if argv[0] == "iptables-save":
            return Completed(0, "\n".join(_rule(mark, n) for mark, n in self.packets.items()))
        super().admin(argv, timeout_s=timeout_s)
        return Completed(1 if argv[0] in ("nc", "ping") else 0, "")


def _rule(mark: str, packets: int) -> str:
    spec = f'-A ACKLOSS-IN -s 198.18.0.12/32 -p tcp -m comment --comment "{mark}" -j DROP'
    return f"[{packets}:{60 * packets}] {spec}"


@pytest.fixture
def nodes() -> dict[str, Filtering]:
    roles = frozenset({"broker"})
    return {f"b{n}": Filtering(f"b{n}", roles, f"198.18.0.{10 + n}") for n in (1, 2, 3)}


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    ticks = count()
    opened = Journal(tmp_path / "faults.jsonl", lambda: next(ticks))
    yield opened
    opened.close()


def window_of(
    nodes: dict[str, Filtering], journal: Journal, tmp_path: Path, *records: NetRecord
) -> FaultWindow:
    """The window of a fault of these acts that stands already, and passes again once undone."""
    faults = Faults({"net": NetLever(nodes)}, journal)
    journal.write("step", fault="cut", nemesis="partition", nodes=["b1"], met=None, why="")
    journal.write("on", fault="cut")
    acts = [
        _Announced(n, faults.levers["net"], record) for n, record in enumerate(records or (RECORD,))
    ]
    for act in acts:
        journal.intent(fault="cut", lever="net", record=act.record)
    for phase in ("applied", "held"):
        faults._prove("cut", acts, phase=phase, applied=True)
    (window,) = windows(tmp_path / "faults.jsonl")
    return window


@pytest.mark.parametrize(("system", "own", "proven"), [(7, 1, True), (0, 1, False), (7, 0, False)])
def test_packets_of_the_system_prove_a_cut_that_stops_a_packet_of_ours(
    nodes: dict[str, Filtering],
    journal: Journal,
    tmp_path: Path,
    system: int,
    own: int,
    proven: bool,
) -> None:
    """Of ports = [9999] all packets were those of nc; those of the system alone prove nothing about
    the mechanism."""
    nodes["b1"].packets = {SYSTEM: system, OWN: own}
    window = window_of(nodes, journal, tmp_path)
    assert (window.proven, window.touched) == (proven, system)
    counts = (
        f"b1: {system} packets of the system from b2 dropped by our rules, and {own} of our own"
    )
    assert counts in window.evidence[0]
    assert (NOTHING_MET in window.evidence) == (system == 0)


def test_one_link_that_carries_something_is_enough(
    nodes: dict[str, Filtering], journal: Journal, tmp_path: Path
) -> None:
    """Two followers have nothing to say to each other; the evidence names each link."""
    nodes["b1"].packets = {SYSTEM: 3, OWN: 1}
    nodes["b3"].packets = {SYSTEM: 0, OWN: 1}
    window = window_of(nodes, journal, tmp_path, RECORD, replace(RECORD, node="b3"))
    assert (window.proven, window.touched) == (True, 3)
    assert any("b3: 0 packets of the system from b2" in reported for reported in window.evidence)


@pytest.mark.parametrize(("hit", "proven"), [(0, False), (11, True)])
def test_a_share_must_have_dropped_packets_of_the_system(
    nodes: dict[str, Filtering], journal: Journal, tmp_path: Path, hit: int, proven: bool
) -> None:
    nodes["b1"].packets = {SYSTEM: hit, f"{SYSTEM}/seen": 50, OWN: 40, f"{OWN}/seen": 200}
    window = window_of(nodes, journal, tmp_path, replace(RECORD, share=0.2))
    assert (window.proven, window.touched) == (proven, hit)
    assert f"b1: {hit} of 50 packets of the system from b2 dropped" in window.evidence[0]
    assert f"with our own {hit + 40} of 250" in window.evidence[0]


def test_packets_of_clients_are_the_workloads(nodes: dict[str, Filtering]) -> None:
    nodes["b1"].packets = {"ackloss/cut/clients": 4, "ackloss/cut/clients/own": 9}
    clients = (Peer(name="clients", address="198.18.0.1"),)
    proof = NetLever(nodes).probe(replace(RECORD, peers=clients, ports=()), applied=True)
    assert (proof.proven, proof.met) == (True, 4)
    assert "4 packets from the workload's clients dropped" in proof.evidence[0]
