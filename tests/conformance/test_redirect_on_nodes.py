"""A redirect on real nodes, with the simplest proxy: whom it meets, what outlives what, and
that the net lever goes on cutting under it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.clusters.ssh.cluster import SshCluster
from harness.faults.records import NetRecord, Peer, ProcessRecord
from harness.levers import net
from harness.levers.net import NetLever, connect
from harness.levers.process import ProcessLever
from harness.levers.protocol import CHAIN, redirect, redirected
from harness.protocols import Node
from tests.conformance.conftest import SSH, Pods, pods_in

pytestmark = pytest.mark.docker

FORWARD = ["perl", "-e", (Path(__file__).parent / "forward.pl").read_text()]
TRY = """
use IO::Socket::INET;
my $s = IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => 9092, Timeout => 2) or die "none";
print "passed";
"""


@pytest.fixture(scope="module")
def proxied(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pods]:
    with pods_in(tmp_path_factory.mktemp("proxied"), kind=kind, beside=FORWARD) as pods:
        redirect(pods.nodes["b1"], {9092: 19092})
        redirect(pods.nodes["b1"], {9092: 19092})
        yield pods


def through(node: Node) -> int:
    """How many connections its redirect has met."""
    rules = node.admin(["iptables-save", "-c", "-t", "nat"]).output.splitlines()
    (counted,) = [line for line in rules if f"-A {CHAIN}" in line and "REDIRECT --to" in line]
    return int(counted[1:].partition(":")[0])


def ask(pods: Pods) -> bool:
    """Whether a connection from b2 to b1 stands, from a port that is not the harness' own."""
    done = pods.nodes["b2"].admin(["perl", "-e", TRY, pods.nodes["b1"].address])
    return "passed" in done.output


def cut(pods: Pods) -> NetRecord:
    peer = Peer(name="b2", address=pods.nodes["b2"].address)
    return NetRecord(node="b1", fault="cut", peers=(peer,), ports=(9092,), direction="in")


def test_it_meets_others_and_not_the_harness_itself(proxied: Pods) -> None:
    node = proxied.nodes["b1"]
    assert redirected(node) == {9092: 19092}
    assert redirected(proxied.nodes["b2"]) == {}
    before = through(node)
    assert connect(node.address, 9092, timeout_s=5) == "passed"
    assert through(node) == before
    assert ask(proxied)
    assert through(node) == before + 1


def test_the_net_lever_cuts_under_it_and_counts_what_it_met(proxied: Pods) -> None:
    lever, record = NetLever(proxied.nodes), cut(proxied)
    lever.apply(record)
    try:
        assert not ask(proxied)
        proof = lever.probe(record, applied=True)
        assert proof.proven, proof.evidence
        assert proof.met
    finally:
        lever.undo(record)
    assert ask(proxied)
    assert lever.probe(record, applied=False).proven


def test_the_trap_is_real(proxied: Pods, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules of a lever that knows nothing of the redirect meet nothing."""
    monkeypatch.setattr(net, "redirected", lambda _: {})
    lever, record = NetLever(proxied.nodes), cut(proxied)
    lever.apply(record)
    try:
        assert ask(proxied)
        assert lever.probe(record, applied=True).met == 0
    finally:
        lever.undo(record)


def test_the_process_beside_goes_on_when_the_other_one_is_killed(proxied: Pods) -> None:
    node = proxied.nodes["b1"]
    lever, record = (
        ProcessLever(proxied.nodes),
        ProcessRecord(node="b1", fault="kill", signal="KILL", pid=node.pid()),
    )
    listens = ["ss", "-Hltn", "sport", "=", ":19092"]
    lever.apply(record)
    try:
        assert lever.probe(record, applied=True).proven
        assert "19092" in node.admin(listens).output
    finally:
        lever.undo(record)
    until = time.monotonic() + 5
    while not ask(proxied):
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.full
def test_nothing_of_it_stays_on_a_host(tmp_path: Path) -> None:
    with pods_in(tmp_path, kind=SSH, beside=FORWARD) as pods:
        assert isinstance(pods, SshCluster)
        redirect(pods.nodes["b1"], {9092: 19092})
        host = pods.hosts["b1"]
        host.down(pods.run_id)
        assert CHAIN not in host.admin(["iptables", "-w", "-t", "nat", "-S"]).output
        assert "ackloss" not in host.admin(["ls", "/run"]).output
        assert "19092" not in host.admin(["ss", "-Hltn"]).output
