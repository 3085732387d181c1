"""The clock lever on real pods whose process prints the time that it sees."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from harness import registry
from harness.clusters.docker.cluster import DockerCluster
from harness.faults.injection import unavailable
from harness.faults.records import ClockRecord
from harness.history.run_folder import new_run_id
from harness.images.building import infra_image
from harness.images.daemon import connect, libfaketime
from harness.levers.clock import ClockLever, prepared
from harness.levers.commands import poll_until
from harness.machine import state
from harness.protocols import NodeSpec

pytestmark = pytest.mark.docker

SEEN = "/var/lib/ackloss/seen"
TELL = f"""
use Time::HiRes 'time';
while (1) {{
    open(my $file, '>', '{SEEN}.new');
    printf $file "%.6f", time;
    close $file;
    rename '{SEEN}.new', '{SEEN}';
    select(undef, undef, undef, 0.1);
}}"""
ROLES = frozenset({"broker"})


@pytest.fixture(scope="module")
def pods(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DockerCluster]:
    """b1 and b2 are prepared, b3 has all the files but not the library in its process, b4 none."""
    run_id, image = new_run_id(), infra_image()
    plain = NodeSpec(name="b4", roles=ROLES, argv=["perl", "-e", TELL])
    whole = prepared(plain, libfaketime(image.id))
    specs = [
        replace(whole, name="b1"),
        replace(whole, name="b2"),
        replace(whole, name="b3", argv=plain.argv),
        plain,
    ]
    with state.registered(run_id, tmp_path_factory.mktemp("pods")):
        cluster = DockerCluster(run_id, connect(), image.id)
        try:
            addresses = cluster.create_network([spec.name for spec in specs])
            cluster.start_pods(specs, image.id, addresses)
            for name in cluster.nodes:
                assert poll_until(lambda name=name: ahead_s(cluster, name) is not None, within_s=5)
            yield cluster
        finally:
            cluster.down()
            state.forget(run_id)


def ahead_s(pods: DockerCluster, name: str) -> float | None:
    """How far the clock that a node's process has just seen is ahead of the host's."""
    reported = pods.nodes[name].admin(["cat", SEEN]).output.strip()
    return float(reported) - time.time() if reported.replace(".", "").isdigit() else None


def sees(pods: DockerCluster, name: str, asked_s: float) -> bool:
    """Whether a node's process comes to see a clock so far ahead."""

    def holds() -> bool:
        off_s = ahead_s(pods, name)
        return off_s is not None and abs(off_s - asked_s) < 0.4

    return poll_until(holds, within_s=3)


def record(node: str = "b1", fault: str = "wrong", **options: Any) -> ClockRecord:
    nemesis = registry.make("nemeses", "clock", options, key="nemesis")
    made: ClockRecord = replace(nemesis.act_on(node, None).record, fault=fault)
    return made


@pytest.mark.parametrize("offset_s", [691_200, -0.75])
def test_a_jump_is_seen_by_the_process_and_by_nobody_else(
    pods: DockerCluster, offset_s: float
) -> None:
    lever, asked = ClockLever(pods.nodes), record(offset_s=offset_s)
    host_s = time.time() - time.monotonic()
    lever.apply(asked)
    lever.apply(asked)
    proof = lever.probe(asked, applied=True)
    assert proof.proven, proof.evidence
    assert sees(pods, "b1", offset_s)
    for other in ("b2", "b3", "b4"):
        assert sees(pods, other, 0)
    lever.undo(asked)
    lever.undo(asked)
    undone = lever.probe(asked, applied=False)
    assert undone.proven, undone.evidence
    assert sees(pods, "b1", 0)
    assert time.time() - time.monotonic() == pytest.approx(host_s, abs=0.01)
    assert not lever.probe(asked, applied=True).proven


def test_two_jumps_add_up_and_healing_one_leaves_the_other(pods: DockerCluster) -> None:
    lever = ClockLever(pods.nodes)
    first, second = record(fault="first", offset_s=100), record(fault="second", offset_s=-30)
    lever.apply(first)
    lever.apply(second)
    assert sees(pods, "b1", 70)
    assert lever.probe(first, applied=True).proven
    assert lever.probe(second, applied=True).proven
    lever.undo(first)
    undone = lever.probe(first, applied=False)
    assert undone.proven, undone.evidence
    assert "second still in force" in undone.evidence[0]
    assert lever.probe(second, applied=True).proven
    lever.undo(second)
    assert lever.probe(second, applied=False).proven
    assert lever.leftover_state(pods.nodes["b1"]) == []


def test_a_drift_moves_ever_further_and_is_put_back(pods: DockerCluster) -> None:
    lever, asked = ClockLever(pods.nodes), record(form="drift", drift_ms_per_s=-100)
    lever.apply(asked)
    lever.apply(asked)
    time.sleep(2)  # and the probe looks for as long
    proof = lever.probe(asked, applied=True)
    assert proof.proven, proof.evidence
    off_s = ahead_s(pods, "b1")
    assert off_s is not None
    assert off_s < -0.3
    lever.undo(asked)
    assert lever.probe(asked, applied=False).proven
    assert sees(pods, "b1", 0)
    assert lever.leftover_state(pods.nodes["b1"]) == []


def test_a_strobe_is_seen_in_both_its_states(pods: DockerCluster) -> None:
    lever, asked = ClockLever(pods.nodes), record(form="strobe", offset_s=30, period_s=4)
    lever.apply(asked)
    proof = lever.probe(asked, applied=True)
    assert proof.proven, proof.evidence
    assert poll_until(lambda: sees(pods, "b1", 30), within_s=5)
    assert poll_until(lambda: sees(pods, "b1", 0), within_s=5)
    lever.undo(asked)
    assert lever.probe(asked, applied=False).proven
    assert sees(pods, "b1", 0)


def test_a_loop_ends_by_itself_and_puts_the_clock_back(pods: DockerCluster) -> None:
    lever, asked = ClockLever(pods.nodes), record(form="strobe", offset_s=30, limit_s=1)
    lever.apply(asked)
    assert lever.leftover_state(pods.nodes["b1"])
    assert poll_until(lambda: lever.leftover_state(pods.nodes["b1"]) == [], within_s=4)
    assert lever.probe(asked, applied=False).proven
    assert sees(pods, "b1", 0)


def test_a_dead_loop_is_found_out(pods: DockerCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.levers.clock._TRIES", 1)
    lever, asked = ClockLever(pods.nodes), record(form="drift")
    lever.apply(asked)
    kill = ["pkill", "-9", "-f", "^sh clock.sh loop wrong"]
    assert poll_until(lambda: pods.nodes["b1"].admin(kill).exit_code == 0, within_s=5)
    proof = lever.probe(asked, applied=True)
    assert not proof.proven, proof.evidence
    lever.undo(asked)
    assert lever.probe(asked, applied=False).proven


def test_a_library_that_is_not_loaded_proves_nothing(pods: DockerCluster) -> None:
    """The check of the check: the file says +60 and `date` believes it, the process does not."""
    lever, asked = ClockLever(pods.nodes), record("b3")
    lever.apply(asked)
    proof = lever.probe(asked, applied=True)
    assert not proof.proven
    assert "has not loaded libfaketime" in proof.evidence[0]
    assert sees(pods, "b3", 0)
    lever.undo(asked)


def test_a_process_that_starts_again_sees_the_wrong_clock(pods: DockerCluster) -> None:
    lever, asked, node = ClockLever(pods.nodes), record("b2", offset_s=-300), pods.nodes["b2"]
    lever.apply(asked)
    node.admin(["kill", "-9", str(node.pid())])
    assert poll_until(lambda: not node.process().running, within_s=5)
    assert not lever.probe(asked, applied=True).proven
    node.start()
    assert sees(pods, "b2", -300)
    assert lever.probe(asked, applied=True).proven
    lever.undo(asked)
    assert lever.probe(asked, applied=False).proven


def test_a_node_that_was_not_prepared_says_so(pods: DockerCluster) -> None:
    lever, asked = ClockLever(pods.nodes), record("b4")
    nemesis = registry.make("nemeses", "clock", {}, key="nemesis")
    assert "b3: its process" in str(unavailable(nemesis, pods.nodes, pods.levers))
    alone = {"b4": pods.nodes["b4"]}
    assert "not started with a clock" in str(unavailable(nemesis, alone, pods.levers))
    with pytest.raises(Exception, match="its clock was not moved"):
        lever.apply(asked)
    assert not lever.probe(asked, applied=True).proven
    lever.undo(asked)
    assert lever.leftover_state(pods.nodes["b4"]) == []


def test_times_of_files_stay_what_they_are(pods: DockerCluster) -> None:
    lever, asked, node = ClockLever(pods.nodes), record(offset_s=691_200), pods.nodes["b1"]
    lever.apply(asked)
    assert sees(pods, "b1", 691_200)
    environ = node.admin(["cat", f"/proc/{node.pid()}/environ"]).output.split("\0")
    faked = [word for word in environ if word.startswith(("LD_PRELOAD=", "FAKE", "NO_FAKE"))]
    reported = node.admin(["env", *faked, "stat", "-c", "%Y", SEEN]).output
    lever.undo(asked)
    assert abs(float(reported) - time.time()) < 5
