"""What a failover costs is measured on real brokers, and more partitions than they carry are
refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fixtures.machine import ran

pytestmark = [pytest.mark.e2e, pytest.mark.docker, pytest.mark.full]


def test_each_fault_is_measured_over_all_partitions(tmp_path: Path) -> None:
    code, result = ran("failover", tmp_path, "target.ballast_partitions=190")
    assert (code, result["verdict"]) == (0, "valid"), result["reason"]
    check = next(each for each in result["checks"] if each["name"] == "failover")
    stop, crash = check["details"]["failover"]
    assert [each["partitions"] for each in (stop, crash)] == [200, 200]
    assert (stop["met"], crash["met"]) == (67, 134)
    assert stop["leaderless"] == crash["leaderless"] == 0
    # The session of a killed broker has to expire; a stopped one says that it goes.
    assert 0 < stop["led_s"] < 3 < crash["led_s"] <= crash["agreed_s"]
    assert crash["written_s"] > 3


def test_more_partitions_than_brokers_may_open_files_for_are_refused(tmp_path: Path) -> None:
    code, document = ran("failover", tmp_path, "target.ballast_partitions=200000")
    assert code == 4
    error = document["error"]
    assert error["key"] == "target.ballast_partitions"
    assert "more than this machine carries" in error["what"]
