"""ZooKeeper on real pods, the oldest and the newest: who leads, settings read back, each client."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.errors import PlanError
from harness.history.run_folder import new_run_id
from harness.machine import state
from harness.models import REGISTER, SET
from harness.protocols import OK, Completion, Invoke, RunCluster, invoke
from harness.run.observer import merge
from harness.run.resolving import resolve
from targets.zookeeper import ZooKeeper
from targets.zookeeper.configuration import ZooKeeperPlan
from tests.fixtures.budget import full
from tests.targets.zookeeper.test_layout import plan_of

pytestmark = pytest.mark.docker
TARGET = ZooKeeper()
EXAMPLE = Path(__file__).parents[3] / "docs/examples/clients/kazoo_client.py"
UP_S = 90


def plan(version: str, *, workload: str = "set", force_sync: bool = True) -> ZooKeeperPlan:
    return plan_of(
        version,
        ensemble={"servers": 3, "observers": 1, "forceSync": force_sync},
        workload={"name": workload, "processes": 4, "clients": 4, "read": "sync"},
    )


@pytest.fixture(scope="module", params=["3.9.4", *full("3.4.14")])
def cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, RunCluster]]:
    resolved, run_id = resolve(plan(request.param)), new_run_id()
    with state.registered(run_id, tmp_path_factory.mktemp("run")):
        made = resolved.provider.cluster(resolved.order, run_id, print)
        try:
            made.start()
            TARGET.bring_up(made, plan(request.param), timeout_s=UP_S)
            yield request.param, made
        finally:
            made.down()
            state.forget(run_id)


def done(cluster: RunCluster, asked: ZooKeeperPlan, *ops: Invoke) -> list[Completion]:
    client, ended = TARGET.client(cluster, asked), list[Completion]()
    for op in ops:
        assert client.submit(0, op)
        count = len(ended)
        while len(ended) == count:
            client.poll(1, lambda _, completion: ended.append(completion))
    client.close(2, lambda *_: None)
    return ended


def test_one_server_leads_and_all_that_vote_are_in_sync(
    cluster: tuple[str, RunCluster],
) -> None:
    version, nodes = cluster[0], cluster[1].nodes
    views = [TARGET.observe(node, plan(version), timeout_s=2) for node in nodes.values()]
    (seen,) = merge(0, [(0, view) for view in views if view]).partitions.values()
    assert seen.leader in ("z1", "z2", "z3")
    assert seen.members == ("z1", "z2", "z3")
    assert {view.partitions[0].leader for view in views if view} == {seen.leader}
    assert {view.partitions[0].leader_epoch for view in views if view} == {1}


def test_settings_are_those_of_the_plan_and_no_others(cluster: tuple[str, RunCluster]) -> None:
    version, made = cluster
    reported = TARGET.effective(made, plan(version))
    assert reported["settings"]["server"]["tickTime"] == "500"
    assert bool(reported["warnings"]) == (version == "3.4.14")
    with pytest.raises(PlanError, match="has 'yes', but 'no' was requested"):
        TARGET.effective(made, plan(version, force_sync=False))


def test_every_model_is_served(cluster: tuple[str, RunCluster]) -> None:
    version, made = cluster
    ended = done(made, plan(version), invoke("add", 3), invoke("read"))
    assert [(type_, result) for type_, _, _, _, result in ended] == [(OK, None), (OK, (3,))]
    ended = done(made, plan(version, workload="sequence"), invoke("next", 1), invoke("next", 2))
    assert [number for _, number, *_ in ended] == [0, 1]
    lock = (invoke(f, 1, key="l") for f in ("acquire", "confirm", "release"))
    assert [result for *_, result in done(made, plan(version, workload="locks"), *lock)] == [
        None,
        1,
        None,
    ]
    ops = (
        invoke("write", 1, key="k"),
        invoke("watch", key="k"),
        invoke("write", 2, key="k"),
        invoke("watch", key="k"),
    )
    *_, last = done(made, plan(version, workload="watches"), *ops)
    assert last[4][:2] == (2, 1), "it was notified"


def by_the_example(
    cluster: RunCluster, asked: ZooKeeperPlan, *ops: dict[str, Any]
) -> list[dict[str, Any]]:
    """How a process of docs/examples/clients answers these, one after the other."""
    (model,) = {REGISTER if op.get("key") else SET for op in ops}
    with subprocess.Popen(
        [sys.executable, EXAMPLE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin
        assert process.stdout

        def tell(**line: Any) -> None:
            assert process.stdin
            process.stdin.write(json.dumps(line) + "\n")
            process.stdin.flush()

        tell(type="setup", model=model.name, connection=TARGET.connection(cluster, asked, 1))
        answers = [json.loads(process.stdout.readline())]
        for number, op in enumerate(ops, start=1):
            tell(type="invoke", id=number, **op)
            answers.append(json.loads(process.stdout.readline()))
        tell(type="close")
        process.stdin.close()
        assert process.wait(timeout=10) == 0
    return answers


def test_a_client_of_the_users_is_served(cluster: tuple[str, RunCluster]) -> None:
    version, made = cluster
    ready, *answers = by_the_example(
        made, plan(version), {"f": "add", "value": 9}, {"f": "add", "value": 9}, {"f": "read"}
    )
    assert ready["name"] == "kazoo"
    assert [answer["type"] for answer in answers] == ["ok", "fail", "ok"]
    assert 9 in answers[2]["result"]
    assert "node" not in answers[2]  # it has several servers, and kazoo does not report which
    one = plan_of(version, workload={"connect": "one"})
    _, answer = by_the_example(made, one, {"f": "read"})
    assert (answer["node"], answer["type"]) == ("z1", "ok")
    _, *answers = by_the_example(
        made,
        plan(version, workload="register"),
        {"f": "read", "key": "r"},
        {"f": "write", "key": "r", "value": 1},
        {"f": "cas", "key": "r", "expected": 2, "value": 3},
        {"f": "cas", "key": "r", "expected": 1, "value": 4},
        {"f": "read", "key": "r"},
    )
    assert [answer["type"] for answer in answers] == ["ok", "ok", "fail", "ok", "ok"]
    assert (answers[0]["result"], answers[4]["result"]) == (None, 4)


def test_logs_tell_of_the_election(cluster: tuple[str, RunCluster]) -> None:
    _, made = cluster
    logs = [TARGET.logs(node)["zookeeper.log"] for node in made.nodes.values()]
    assert any(TARGET.log_lines().relevant.search(log) for log in logs)


def test_the_image_is_made_beforehand(tmp_path: Path) -> None:
    TARGET.prepare_version("3.9.4", print)
    assert TARGET.made("3.9.4") == {"image of ZooKeeper 3.9.4": True}
