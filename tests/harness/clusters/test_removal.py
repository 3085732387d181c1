"""Removing what a run made: in which order, and what earlier versions have left. No Docker."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import pytest
import requests
from docker.errors import APIError, NotFound

from harness.clusters.docker.cluster import remove_run, unknown_runs
from harness.errors import HarnessFailure
from harness.images.daemon import RUN_LABEL
from harness.machine import loop_disks


@dataclass
class Api:
    """Docker's API with these objects of one run; `errors` are raised at their removal."""

    names: tuple[str, ...] = ("a-b1", "a-b1-infra")
    errors: dict[str, Exception] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def containers(self, **_: Any) -> list[dict[str, Any]]:
        return [
            {"Id": name, "Names": [f"/{name}"], "Labels": {RUN_LABEL: "a"}} for name in self.names
        ]

    def volumes(self, **_: Any) -> dict[str, Any]:
        return {"Volumes": [{"Name": "v", "Labels": {RUN_LABEL: "a"}}]}

    def networks(self, **_: Any) -> list[dict[str, Any]]:
        return [{"Id": "n", "Name": "n", "Labels": {RUN_LABEL: "b"}}]

    def _remove(self, name: str, **_: Any) -> None:
        if name in self.errors:
            raise self.errors[name]
        self.removed.append(name)

    remove_container = remove_volume = remove_network = _remove


@dataclass
class Client:
    api: Api


def removed(api: Api, **how: bool) -> list[str]:
    return remove_run(Client(api), "a", **how)  # type: ignore[arg-type]


def test_a_targets_container_goes_before_its_infrastructure_container() -> None:
    api, names = Api(("a-b1-infra", "a-b1")), ["container a-b1", "container a-b1-infra"]
    assert removed(api, dry_run=True) == [*names, "network n", "volume v"]
    assert api.removed == []
    assert removed(api) == [*names, "network n", "volume v"]
    assert api.removed == ["a-b1", "a-b1-infra", "v", "n"]


def test_what_is_gone_already_is_left_out() -> None:
    api = Api(errors={"v": NotFound("gone")})
    assert removed(api) == ["container a-b1", "container a-b1-infra", "network n"]


@pytest.mark.parametrize("error", [requests.ConnectionError("reset"), requests.Timeout("late")])
def test_a_connection_that_breaks_is_a_failure_and_the_rest_is_tried(error: Exception) -> None:
    api = Api(errors={"a-b1": error})
    with pytest.raises(HarnessFailure, match="could not remove container a-b1: "):
        removed(api)
    assert api.removed == ["a-b1-infra", "v", "n"]


@pytest.mark.parametrize(
    ("explanation", "hint"),
    [
        ("error while removing network: network n id 1 has active endpoints", "restart Docker"),
        ("permission denied", "run `ackloss clean` again$"),
    ],
)
def test_a_network_that_docker_miscounts_has_a_hint_that_helps(explanation: str, hint: str) -> None:
    api = Api(errors={"n": APIError("409", explanation=explanation)})
    with pytest.raises(HarnessFailure) as raised:
        removed(api)
    assert re.search(hint, str(raised.value.hint))


def test_runs_are_known_by_the_label_of_their_objects_and_by_their_disks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop_disks, "runs_with_disks", lambda: {"a", "c"})
    assert unknown_runs(Client(Api()), {"a"}) == {"b", "c"}  # type: ignore[arg-type]
