"""What a run leaves out of garbage collection, and what it leaves to the program that runs it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from harness.run.load import _RareCollections


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    gc.freeze()  # as `tests/conftest.py` has it


def test_what_exists_is_left_out_until_the_last_cell_has_ended() -> None:
    gc.unfreeze()
    before, rare = gc.get_threshold(), _RareCollections()
    with rare:
        with rare:
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() > before
    assert gc.get_freeze_count() == 0
    assert gc.get_threshold() == before


def test_what_the_caller_has_left_out_stays_so() -> None:
    gc.freeze()
    before, rare = gc.get_threshold(), _RareCollections()
    for _ in range(2):
        with rare:
            assert gc.get_threshold() > before
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == before
