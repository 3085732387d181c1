"""Cleanup after dead runs before another begins."""

from __future__ import annotations

import pytest

from harness import registry
from harness.clusters import cleaning
from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure
from harness.protocols import Provider
from harness.run.runner import clean_before


def provider(kind: str) -> Provider:
    made: Provider = registry.make("clusters", kind, {}, key="cluster.kind")
    return made


class Cleaned:
    """What a cleanup has removed, and what it has undone."""

    removed = ("container x",)
    undone = ("cut on b1",)


def reported(monkeypatch: pytest.MonkeyPatch, kind: str, result: Cleaned | AcklossError) -> object:
    """What is reported where the cleanup ends like this."""

    def clean_all(*, dry_run: bool, kept: bool, only: Provider) -> Cleaned:
        assert (dry_run, kept, only.plugin) == (False, False, kind)
        if isinstance(result, AcklossError):
            raise result
        return result

    monkeypatch.setattr(cleaning, "clean_all", clean_all)
    said: list[str] = []
    clean_before(provider(kind), said.append)
    return said


def test_what_was_removed_and_undone_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported(monkeypatch, "docker", Cleaned()) == [
        "left by a dead run, removed: container x",
        "in force until then: cut on b1",
    ]


def test_nothing_is_cleaned_where_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported(monkeypatch, "memory", HarnessFailure("not called")) == []


def test_a_failure_is_reported_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert reported(monkeypatch, "docker", HarnessFailure("stuck")) == [
        "cannot remove what dead runs left: stuck"
    ]
    assert reported(monkeypatch, "docker", EnvironmentFailure("no Docker")) == []
