"""What a plan may not set of systems of servers is refused at its key."""

from __future__ import annotations

from typing import Any

import pytest

from harness.errors import PlanError
from harness.plan import parse_plan
from harness.run.resolving import resolve

LOADS = {"etcd": "register", "nats": "append", "rabbitmq": "queue"}
"""Those of which a plan has none by default here; the others have a set."""


def setting(name: str) -> tuple[dict[str, Any], str]:
    """A setting of servers, and its key."""
    return {"target": {"settings": {name: "/x"}}}, f'target.settings."{name}"'


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("etcd", {"target": {"version": "3.7.99"}}, "target.version"),
    ("etcd", {"target": {"version": "3.4.23"}}, "target.version"),
    ("etcd", *setting("data-dir")),
    ("galera", *setting("wsrep_notify_cmd")),
    ("galera", {"target": {"version": "11.8"}}, "target.version"),
    ("galera", {"workload": {"name": "register"}}, "workload.name"),
    ("galera", {"workload": {"name": "set", "sync_wait": 16}}, "workload.sync_wait"),
    ("nats", {"target": {"version": "1.0"}}, "target.version"),
    ("nats", {"target": {"sync_interval": "never"}}, "target.sync_interval"),
    ("nats", {"target": {"version": "2.9", "sync_interval": "always"}}, "target.sync_interval"),
    ("nats", {"target": {"nodes": 7}}, "target.nodes"),
    ("nats", {"target": {"object": "other"}}, "target.object"),
    ("nats", {"stream": {"replicas": 5}}, "stream.replicas"),
    ("postgresql", *setting("data_directory")),
    ("postgresql", {"target": {"version": "3.0.2"}}, "target.version"),
    ("postgresql", {"target": {"ttl": 20, "retry_timeout": 10}}, "target.ttl"),
    ("postgresql", {"target": {"ttl": 19}}, "target.ttl"),
    ("rabbitmq", {"queue": {"kind": "stream"}}, "workload.name"),
    ("rabbitmq", {"workload": {"name": "append", "duration_s": 1}}, "workload.name"),
    ("rabbitmq", *setting("x")),
    ("rabbitmq", {"target": {"version": "3.13.0"}}, "target.version"),
    ("redis", *setting("dir")),
    ("redis", {"workload": {"name": "queue", "options": {"read_share": 0}}}, "workload.name"),
    ("redis", {"target": {"version": "7.2"}}, "target.version"),
    ("redis", {"workload": {"name": "set", "wait_replicas": 3}}, "workload.wait_replicas"),
    ("redis", {"target": {"min_replicas_to_write": 3}}, "target.min_replicas_to_write"),
    ("valkey", {"target": {"version": "7.2"}}, "target.version"),
]


def checked(system: str, sections: dict[str, Any]) -> object:
    """The plan of a system with these sections, as it would be run."""
    load = {"workload": {"name": LOADS.get(system, "set"), "duration_s": 1}}
    target = {"system": system, **sections.get("target", {})}
    given = {"schema": 1, "name": "p", **load, **sections, "target": target}
    return resolve(parse_plan(given)).plan


@pytest.mark.parametrize(("system", "sections", "key"), REFUSED)
def test_what_a_plan_may_not_set_is_refused(
    system: str, sections: dict[str, Any], key: str
) -> None:
    with pytest.raises(PlanError) as refused:
        checked(system, sections)
    assert refused.value.key == key


@pytest.mark.parametrize("system", sorted({system for system, _, _ in REFUSED}))
def test_without_it_the_plan_is_accepted(system: str) -> None:
    assert checked(system, {})
