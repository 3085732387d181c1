"""The full lever on a real node: a disk in memory is filled to its last byte, nothing else is."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.clusters.docker.cluster import DockerCluster
from harness.errors import HarnessFailure
from harness.faults.records import FullRecord
from harness.levers.commands import poll_until
from harness.levers.disk import FullLever, unbounded
from harness.protocols import Node
from nemeses.disk import Disk
from tests.conformance.conftest import Pods

pytestmark = pytest.mark.docker

DATA = "/var/lib/ackloss/data"


@pytest.fixture
def node(pods: Pods) -> Iterator[Node]:
    node = pods.nodes["b2"]
    up = poll_until(lambda: node.run(["true"]).exit_code == 0, within_s=60)
    assert up, "it was started after the last test"
    node.put({"data/topic-0/log": b"kept"})
    yield node
    node.admin(["find", DATA, "-mindepth", "1", "-delete"])
    node.start()


def record(node: Node, fault: str) -> FullRecord:
    (act,) = Disk(form="full").acts([node], lambda _: [])
    assert isinstance(act.record, FullRecord)
    return replace(act.record, fault=fault)


def written(node: Node) -> int:
    """The exit code of the target's own container storing one byte more."""
    return node.run(["sh", "-c", f"echo x > {DATA}/topic-0/more"]).exit_code


def test_the_target_cannot_store_a_byte_until_it_is_undone(node: Node) -> None:
    asked, lever = record(node, "x"), FullLever({"b2": node})
    lever.apply(asked)
    assert lever.probe(asked, applied=True).proven
    assert written(node) != 0
    node.put({"beside": b"only what the target stores is out of space"})
    assert node.get("beside")["beside"]
    lever.apply(asked)
    lever.undo(asked)
    lever.undo(asked)
    proof = lever.probe(asked, applied=False)
    assert proof.proven, proof.evidence
    assert written(node) == 0
    assert node.get("data/topic-0/log") == {"log": b"kept"}


def test_a_process_that_died_of_it_runs_again(node: Node) -> None:
    asked, lever = record(node, "x"), FullLever({"b2": node})
    lever.apply(asked)
    node.admin(["kill", "-KILL", str(asked.pid)])
    assert poll_until(lambda: not node.process().running, within_s=10)
    assert lever.probe(asked, applied=True).proven
    assert not lever.probe(asked, applied=False).proven
    lever.undo(asked)
    proof = lever.probe(asked, applied=False)
    assert proof.proven, proof.evidence
    assert node.process().running


def test_it_is_no_longer_full_once_the_target_gave_space_back(node: Node) -> None:
    node.put({"data/topic-0/old": bytes(100_000)})
    asked, lever = record(node, "x"), FullLever({"b2": node})
    lever.apply(asked)
    node.run(["rm", f"{DATA}/topic-0/old"])
    proof = lever.probe(asked, applied=True)
    assert not proof.proven, proof.evidence


def test_undoing_one_of_two_leaves_it_full(node: Node) -> None:
    first, second, lever = record(node, "first"), record(node, "second"), FullLever({"b2": node})
    lever.apply(first)
    lever.apply(second)
    lever.undo(first)
    gone, held = lever.probe(first, applied=False), lever.probe(second, applied=True)
    assert gone.proven, gone.evidence
    assert held.proven, held.evidence
    assert written(node) != 0
    lever.undo(second)
    assert lever.probe(second, applied=False).proven


def test_a_disk_that_others_use_too_is_refused(node: Node) -> None:
    asked = replace(record(node, "x"), folder="conf")
    assert "GiB that others use too" in (unbounded(node, "conf") or "")
    with pytest.raises(HarnessFailure, match="that others use too"):
        FullLever({"b2": node}).apply(asked)
    assert set(node.get("conf")) == {"x"}


def test_the_disk_is_bounded_and_in_memory(node: Node) -> None:
    df = node.run(["df", "-B1", "--output=size,fstype", DATA]).output.split()
    assert df[-2:] == [str(128 << 20), "tmpfs"]


def test_the_disk_in_docker_goes_with_its_run(docker_pods: DockerCluster) -> None:
    name = f"ackloss-{docker_pods.run_id}-b2-data"
    argv = ["docker", "volume", "inspect", "-f", "{{json .Options}} {{json .Labels}}", name]
    reported = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert '"type":"tmpfs"' in reported
    assert f'"ackloss.run":"{docker_pods.run_id}"' in reported
