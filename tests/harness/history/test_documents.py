"""Stored documents: fields of any version are read, damaged ones are named, rates are exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.errors import HistoryError
from harness.history.documents import (
    Counts,
    ForeignDocument,
    LostSpan,
    Rates,
    RunResult,
    read_result,
    read_run,
    result_of,
)
from harness.history.run_folder import RunDir

LEAST: dict[str, Any] = {"verdict": "valid", "counts": {"acknowledged": 3, "lost": 0}}


def test_the_rates_of_the_2013_experiment() -> None:
    counts = Counts(
        attempted=1000, acknowledged=987, survivors=468, lost=520, unacknowledged_found=1
    )
    rates = Rates.of(counts)
    assert rates.ack == 0.987
    assert rates.loss == pytest.approx(0.526849, abs=5e-7)
    assert rates.unacknowledged_success == pytest.approx(0.00101317, abs=5e-9)
    assert rates.unacknowledged_success_of_unacknowledged == 1 / 13
    split = Rates.of(Counts(acknowledged=4, lost=1, failed_found=1, unknown_found=2))
    assert (split.failed_success, split.unknown_success) == (0.25, 0.5)


def test_a_rate_with_denominator_0_is_none() -> None:
    assert Rates.of(Counts(acknowledged=0, lost=0)) == Rates()
    every = Rates.of(Counts(attempted=2, acknowledged=2, lost=1))
    assert (every.loss, every.unacknowledged_success_of_unacknowledged) == (0.5, None)


def test_fields_that_an_earlier_version_did_not_write_are_not_recorded() -> None:
    result = result_of(LEAST)
    assert result == RunResult(verdict="valid", counts=Counts(acknowledged=3, lost=0))
    assert (result.eligible, result.doubts, result.lost_spans) == (None, None, None)


def test_fields_that_a_later_version_adds_are_ignored() -> None:
    later = {**LEAST, "colour": "red", "counts": {**LEAST["counts"], "stale": 4}}
    assert result_of(later) == result_of(LEAST)


def test_lists_become_tuples_and_null_is_not_recorded() -> None:
    span = {"client": 1, "lost": 2, "begun_s": [1.0, 2.5], "acknowledged_s": None}
    result = result_of({**LEAST, "doubts": ["starved"], "seed": None, "lost_spans": [span]})
    assert result.doubts == ("starved",)
    assert result.seed is None
    assert result.lost_spans == (LostSpan(client=1, lost=2, begun_s=(1.0, 2.5)),)


@pytest.mark.parametrize(
    ("edited", "key"),
    [
        ({"eligible": "false"}, "eligible is 'false'"),
        ({"doubts": "starved"}, "doubts is 'starved'"),
        ({"counts": {"acknowledged": 3, "lost": "0"}}, "counts.lost is '0'"),
        ({"counts": {"acknowledged": 3, "lost": True}}, "counts.lost is True"),
        ({"counts": {"acknowledged": 3, "lost": -1}}, "counts.lost is -1"),
        ({"counts": 7}, "counts is 7"),
        ({"faults": [{"id": "cut", "proven": 1}]}, "faults.0.proven is 1"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(edited: dict[str, Any], key: str) -> None:
    with pytest.raises(HistoryError) as raised:
        result_of({**LEAST, **edited}, file=Path("result.json"))
    assert raised.value.what.startswith(f"{key}: ")
    assert raised.value.file == "result.json"


@pytest.mark.parametrize("number", [2**63, 2**64 - 1])
def test_a_count_of_a_check_beyond_64_bits_is_refused(number: int) -> None:
    """As the counts of the run are; tables hold no such number."""
    check: dict[str, Any] = {"name": "mine", "verdict": "valid", "counts": {"most": number}}
    with pytest.raises(HistoryError, match=rf"^checks\.0\.counts\.most is {number}: expected"):
        result_of({**LEAST, "checks": [check]})
    check["counts"] = {"most": 2**63 - 1, "least": -(2**63), "share": 0.5, "none": None}
    (read,) = result_of({**LEAST, "checks": [check]}).checks
    assert read.counts == check["counts"]


@pytest.mark.parametrize("missing", ["verdict", "counts"])
def test_a_document_without_the_first_fields_is_foreign(missing: str) -> None:
    with pytest.raises(ForeignDocument, match=f"it lacks {missing}"):
        result_of({key: value for key, value in LEAST.items() if key != missing})


def test_documents_are_read_from_a_run_folder(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "run")
    with pytest.raises(HistoryError, match="no such document"):
        read_result(run)
    run.result.write_bytes(orjson.dumps({"schema": 1, **LEAST}))
    metadata = {"schema": 1, "run_id": "run", "cluster": {"id": "c1"}, "nodes": [{"name": "b1"}]}
    run.run.write_bytes(orjson.dumps(metadata))
    assert read_result(run).counts.acknowledged == 3
    stored = read_run(run)
    assert (stored.run_id, stored.cluster.id, stored.nodes[0].name) == ("run", "c1", "b1")
    assert not stored.load.starved


def test_an_unknown_model_is_an_error(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "run")
    run.run.write_bytes(orjson.dumps({"schema": 1, "promises": {"model": "ledger"}}))
    with pytest.raises(HistoryError, match="no model that this ackloss knows: log, register, set"):
        read_run(run)
