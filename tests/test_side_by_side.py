"""Of two processes' tests: one that has to be alone waits, and is waited for."""

from __future__ import annotations

import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.side_by_side import (
    NICE_OF_LITTLE,
    SPARK,
    Kind,
    about_s,
    beside_others,
    group,
    kind,
    nice,
)


@pytest.fixture
def _locks_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.mark.usefixtures("_locks_of_its_own")
def test_who_waits_to_be_alone_is_next() -> None:
    begun: list[str] = []
    ends = {name: threading.Event() for name in ("first", "second", "alone", "last")}

    def begin(name: str) -> threading.Thread:
        def hold() -> None:
            with beside_others(alone=name == "alone"):
                begun.append(name)
                assert ends[name].wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        time.sleep(0.2)
        return thread

    threads = [begin("first"), begin("second")]
    assert begun == ["first", "second"]
    threads += [begin("alone"), begin("last")]
    assert begun == ["first", "second"]
    ends["first"].set()
    time.sleep(0.2)
    assert begun == ["first", "second"]
    ends["second"].set()
    time.sleep(0.2)
    assert begun == ["first", "second", "alone"]
    ends["alone"].set()
    ends["last"].set()
    for thread in threads:
        thread.join(30)
    assert begun == ["first", "second", "alone", "last"]


def test_files_that_are_judged_by_spark_share_one_process() -> None:
    assert group("tests/checkers/loss/test_checker.py") == SPARK
    assert group("tests/analysis/lake/test_query.py") == SPARK
    assert group("tests/e2e/test_spark_cluster.py") != SPARK  # it has its own cluster
    assert about_s(SPARK) > about_s("tests/reports/test_in_a_browser.py")
    assert kind(SPARK) is Kind.NONE


def test_how_long_a_file_takes_is_read_from_its_marks() -> None:
    assert about_s("tests/e2e/test_campaign_troubles.py") > about_s("tests/e2e/test_defects.py")
    assert about_s("tests/reports/test_in_a_browser.py") > about_s("tests/test_docs.py") == 0


def test_what_plays_in_real_time_has_a_larger_share_than_clusters() -> None:
    assert nice("tests/targets/kafka/groups/test_consumers_on_a_mock.py") == NICE_OF_LITTLE
    assert nice("tests/e2e/test_compose.py") == 0
    assert nice("tests/test_docs.py") > 0
