"""What is damaged where nothing is known of how a target stores."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.faults.records import DiskRecord
from harness.levers.disk import Change, DiskLever, matching, planned
from tests.fixtures.dry_run import DryRunNode

TOPICS = ("data/[!_]*-[0-9]*",)
ASKED = DiskRecord(node="b1", fault="x", seed=1, signal="KILL", pid=7, form="wipe", folders=TOPICS)
FILES = {"data/log-0/1": b"first", "data/log-0/2": b"second", "data/log-0/3": b"", "data/x": b"x"}


def changes(**options: Any) -> list[Change]:
    sizes = {path: len(content) for path, content in FILES.items()}
    return planned(replace(ASKED, **options), sizes, lambda path: FILES.get(path, b""), None)


def test_patterns_match_whole_folders() -> None:
    sizes = dict.fromkeys(
        ["data/a-0/x", "data/a-b-12/x", "data/__offsets-0/x", "data/a-0/deep-1/x", "log/x", "y"], 1
    )
    assert matching(sizes, TOPICS) == ["data/a-0", "data/a-b-12"]


def test_wipe_deletes_the_folder() -> None:
    assert [(change.how, change.path) for change in changes()] == [("delete", "data/log-0")]


def test_truncate_takes_the_end_of_the_last_file_that_holds_anything() -> None:
    (change,) = changes(form="truncate", cut_bytes=4)
    assert (change.how, change.path, change.size_bytes) == ("resize", "data/log-0/2", 2)


def test_flip_changes_as_many_bits_as_requested_and_the_same_for_the_same_seed() -> None:
    (change,) = changes(form="flip", flip_count=3)
    assert change.path == "data/log-0/2"
    before = FILES[change.path]
    assert sum((before[place] ^ byte).bit_count() for place, byte in change.flips) == 3
    assert changes(form="flip", flip_count=3) == [change]
    assert changes(form="flip", flip_count=3, seed=2) != [change]


@pytest.mark.parametrize("form", ["unsynced", "reformat"])
def test_what_depends_on_the_storage_is_unavailable_without_it(form: Any) -> None:
    why = f"how the target stores is not known, and the form '{form}' depends on it"
    with pytest.raises(ValueError, match=why):
        changes(form=form)
    node = DryRunNode("b1", frozenset({"broker"}), "198.18.0.11")
    assert DiskLever({"b1": node}).unavailable(node, replace(ASKED, form=form)) == why
    assert node.commands == []
