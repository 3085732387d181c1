"""Who the controllers are: in the files of nodes, or in the metadata log's first snapshot."""

from __future__ import annotations

import pytest

from harness.plan import Plan, parse_plan
from harness.protocols import ImageRef, Ingredients
from targets.kafka import images, kraft
from targets.kafka.images import resolve

pytestmark = pytest.mark.slow

CONTROLLERS = ["c1", "c2", "c3"]
_SNAPSHOT = "data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"


def plan(level: int, version: str = "4.3.1") -> Plan:
    target = {"version": version, "features": {"kraft.version": level}}
    return parse_plan({"schema": 1, "name": "p", "target": target})


def addresses(asked: Plan) -> dict[str, str]:
    return {name: f"198.18.0.{at}" for at, name in enumerate(kraft.node_ids(asked), 11)}


def files_of(asked: Plan, image: ImageRef) -> dict[str, dict[str, bytes]]:
    made = kraft.specs(asked, Ingredients(image=image), addresses(asked))
    return {spec.name: dict(spec.files) for spec in made}


def test_static_voters_stand_in_every_nodes_file() -> None:
    asked = plan(0)
    for files in files_of(asked, ImageRef(reference="kafka", id="x", version="4.3.1")).values():
        written = files["server.properties"].decode()
        assert "controller.quorum.voters=101@198.18.0.14:9093,102@198.18.0.15:9093," in written
        assert "bootstrap.servers" not in written
        assert _SNAPSHOT not in files


def test_founders_know_each_other_alone_and_the_others_know_all() -> None:
    asked = parse_plan({"schema": 1, "name": "p", "target": {"founders": 1}})
    found = files_of(asked, ImageRef(reference="kafka", id="x", version="4.3.1"))
    voters = {
        name: next(
            line.count("@")
            for line in files["server.properties"].decode().splitlines()
            if line.startswith("controller.quorum.voters=")
        )
        for name, files in found.items()
    }
    assert voters == {"b1": 3, "b2": 3, "b3": 3, "c1": 1, "c2": 3, "c3": 3}


def test_features_stand_in_every_nodes_checkpoint_and_since_4_4_in_the_controllers_snapshot() -> (
    None
):
    before, since = (plan(0, version) for version in ("4.3.1", "4.4.0"))
    image = ImageRef(reference="kafka", id="x")
    assert all("data/bootstrap.checkpoint" in files for files in files_of(before, image).values())
    for name, files in files_of(since, image).items():
        assert "data/bootstrap.checkpoint" not in files
        assert (_SNAPSHOT in files) == (name in CONTROLLERS)


@pytest.mark.docker
@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_voters_that_can_change_stand_in_the_controllers_first_snapshot(version: str) -> None:
    asked = plan(1, version)
    found = files_of(asked, resolve(asked.target))
    for name, files in found.items():
        written = files["server.properties"].decode()
        assert "controller.quorum.voters" not in written
        assert "controller.quorum.bootstrap.servers=198.18.0.14:9093,198.18.0.15:9093," in written
        assert (_SNAPSHOT in files) == (name in CONTROLLERS)
    snapshots = {files[_SNAPSHOT] for name, files in found.items() if name in CONTROLLERS}
    assert len(snapshots) == 1
    for name in CONTROLLERS:
        assert addresses(asked)[name].encode() in next(iter(snapshots))
    holds_features = b"group.version" in next(iter(snapshots))
    assert holds_features == (version == "4.4.0")


def test_an_id_never_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = iter([b"\xf8" + bytes(15), b"\x01" + bytes(15)])

    class Drawn:
        bytes = property(lambda _: next(drawn))

    monkeypatch.setattr(kraft.uuid, "uuid4", Drawn)
    assert not kraft.new_cluster_id().startswith("-")
    assert next(drawn, None) is None


def test_a_quorums_feature_is_no_level_of_the_bootstrap_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(images, "archive", lambda *_: None)
    monkeypatch.setattr(
        images, "bootstrap_checkpoint", lambda _, levels: asked.append(levels) or b"x"
    )
    kraft.ingredients(plan(1), ImageRef(reference="kafka", id="x"), lambda _: None)
    assert asked == [{}]
