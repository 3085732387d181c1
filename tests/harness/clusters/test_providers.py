"""Kinds of cluster are plug-ins: found by name, refused by name, and light to import."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from harness import registry
from harness.errors import PlanError
from harness.plan import parse_plan
from harness.protocols import Provider
from harness.run.resolving import resolve

KAFKA = {"schema": 1, "name": "p", "target": {"version": "4.3.1"}}


def provider(kind: str, **options: Any) -> Provider:
    made = registry.make("clusters", kind, options, key="cluster.kind")
    assert isinstance(made, Provider)
    return made


def test_every_kind_is_a_provider_and_has_a_name() -> None:
    kinds = registry.plugins("clusters")
    assert {"docker", "memory"} <= set(kinds)
    for kind in kinds:
        assert provider(kind).plugin == kind
        assert provider(kind).levers or kind == "external"
    assert [kind for kind in kinds if provider(kind).simulated] == ["memory"]
    assert [kind for kind in kinds if provider(kind).outlives] == [
        "compose",
        "docker",
        "external",
        "ssh",
    ]


@pytest.mark.parametrize(
    ("section", "key", "what"),
    [
        ({"kind": "dockr"}, "cluster.kind", "did you mean 'docker'"),
        ({"kind": "moon"}, "cluster.kind", "there are: compose, docker, external, memory, ssh"),
        ({"kind": "docker", "real_time": True}, "cluster.real_time", "has no option 'real_time'"),
        ({"kind": "memory"}, "cluster.kind", "it can on: compose, docker, external, ssh"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused_when_the_plan_is_read(
    section: dict[str, Any], key: str, what: str
) -> None:
    with pytest.raises(PlanError) as refused:
        resolve(parse_plan({**KAFKA, "cluster": section}), file="plan.toml")
    assert refused.value.key == key
    assert what in str(refused.value)
    assert refused.value.file == "plan.toml"


def test_the_memory_of_all_nodes_and_the_time_to_start_them_is_what_a_run_costs() -> None:
    resolved = resolve(parse_plan(KAFKA))
    kept, new = (resolved.provider.cost(resolved.order, kept=kept) for kept in (True, False))
    assert kept.memory_mb == new.memory_mb == 6 * (512 + 64)
    assert new.seconds > kept.seconds > resolved.plan.workload.duration_s


def test_a_plan_is_validated_without_dockers_client() -> None:
    program = (
        "import sys; from ackloss.cli import main\n"
        "try: main(['plan', 'validate', 'plans/kafka-safe.toml'])\n"
        "except SystemExit as ended: assert not ended.code, ended.code\n"
        "print(*{'docker', 'requests', 'pyspark'} & set(sys.modules), 'end')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == "end", done
