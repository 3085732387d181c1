"""The queue checker: agrees with Jepsen's total-queue, and never calls lost what may be there, or
what a dequeue of unknown outcome may have removed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from checkers.judging.many_runs import check_histories
from checkers.queue import Queue
from harness.protocols import CheckResult
from tests.fixtures.operation_rows import Row, checked

ANSWERS = Path(__file__).parents[1] / "histories" / "jepsen-total-queue.jsonl"
CASES = [orjson.loads(line) for line in ANSWERS.read_bytes().splitlines()]
SAME = {
    "attempt-count": "attempted",
    "acknowledged-count": "acknowledged",
    "lost-count": "missing",
    "unexpected-count": "unexpected",
    "duplicated-count": "duplicated",
    "recovered-count": "recovered",
}


def judged(folder: Path, *histories: tuple[str, list[dict[str, Any]]]) -> dict[str, Any]:
    files = [folder / f"{name}.jsonl" for name, _ in histories]
    for file, (_, ops) in zip(files, histories, strict=True):
        file.write_bytes(b"".join(orjson.dumps(op) + b"\n" for op in ops))
    documents = check_histories(files, checker="queue")
    return {document["run_id"]: document for document in documents}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    assert len(CASES) == 60
    pairs = ((case["name"], case["history"]) for case in CASES)
    return judged(tmp_path_factory.mktemp("histories"), *pairs)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_counts_agree_with_jepsens_total_queue(
    case: dict[str, Any], documents: dict[str, Any]
) -> None:
    document = documents[case["name"]]
    counts = document["counts"]
    assert {theirs: counts[ours] for theirs, ours in SAME.items()} == {
        name: case["result"][name] for name in SAME
    }
    # All of them end with a drain that is ok, and no dequeue is unknown: what is missing is lost.
    assert counts["lost"] == counts["missing"]
    shares = {
        "ack": counts["acknowledged"] / counts["attempted"],
        "loss": counts["lost"] / counts["acknowledged"],
        "unacknowledged_success": counts["recovered"] / counts["acknowledged"],
    }
    assert {name: document["rates"][name] for name in shares} == shares
    stricter = counts["failed_found"] or counts["early"]
    expected = "invalid" if case["result"]["valid?"] is False or stricter else "valid"
    assert document["verdict"] == expected, document["reason"]


def said(*rows: Row, size: int = 100, **options: Any) -> CheckResult:
    return checked(Queue(**options), rows, size=size)


def put(value: int, how: str = "ok", process: int = 0) -> list[Row]:
    rows = [Row(f="enqueue", process=process, type=t, value=value) for t in ("invoke", how)]
    return rows[: 2 if how else 1]


def take(value: int | None = None, how: str = "ok", process: int = 0) -> list[Row]:
    begun = Row(f="dequeue", process=process)
    return [begun, Row(f="dequeue", process=process, type=how, result=value)] if how else [begun]


def drain(*values: int, how: str = "ok", process: int = 0) -> list[Row]:
    found = values if how == "ok" else None
    return [
        Row(f="drain", process=process),
        Row(f="drain", process=process, type=how, elements=found),
    ]


def wrong(result: CheckResult) -> dict[str, Any]:
    return {each.name: result.counts[each.name] for each in result.counter_examples}


@pytest.mark.parametrize("size", [1, 2, 100])
def test_what_never_comes_out_of_a_drained_queue_is_lost(size: int) -> None:
    result = said(*put(1), *put(2), *put(3), *take(2), *drain(3), size=size)
    assert wrong(result) == {"lost": 1}
    assert result.findings is not None
    assert [(row["kind"], row["value"]) for row in result.findings.to_pylist()] == [("lost", 1)]
    kept = said(*put(1), *put(2), *put(3), *take(2), *drain(3, 1), size=size)
    assert (wrong(kept), kept.doubts) == ({}, ())
    assert kept.all_well == "all 3 acknowledged elements came out"


@pytest.mark.parametrize(
    "end",
    [
        pytest.param([], id="none"),
        pytest.param(drain(2, how="info"), id="unknown"),
        pytest.param(drain(how="fail"), id="failed"),
        pytest.param(take(None), id="a dequeue that found nothing"),
    ],
)
def test_without_a_drain_at_the_end_nothing_is_lost(end: list[Row]) -> None:
    result = said(*put(1), *put(2), *take(2), *end)
    assert wrong(result) == {}
    assert result.counts["missing"] == 1
    assert [each.name for each in result.doubts] == ["incomplete"]
    assert said(*put(1), *take(1), *end).doubts == ()  # all came out: nothing may be lost
    begun = Row(f="drain", process=9)
    early = said(begun, *put(1), Row(f="drain", process=9, type="ok", elements=[]))
    assert (wrong(early), early.counts["missing"]) == ({}, 1)


@pytest.mark.parametrize("how", ["info", ""])
def test_an_unknown_dequeue_may_have_removed_one_element(how: str) -> None:
    elements = [*put(1), *put(2), *put(3)]
    one = said(*elements, *take(None, how, process=7), *drain(1, 2))
    assert (wrong(one), [each.name for each in one.doubts]) == ({}, ["not_yet_visible"])
    three = said(*elements, *take(None, how, process=7), *drain())
    assert wrong(three) == {"lost": 2}
    assert three.findings is not None
    assert three.findings["kind"].to_pylist() == ["missing"] * 3  # which two nobody knows
    assert wrong(said(*elements, *take(None, "fail"), *drain(1, 2))) == {"lost": 1}


def test_an_unknown_drain_may_have_removed_any_number() -> None:
    rows = [*put(1), *put(2), *put(3), *drain(how="info", process=7), *drain()]
    assert wrong(said(*rows)) == {}


def test_what_was_never_put_in_failed_or_began_later_comes_out() -> None:
    assert wrong(said(*put(1), *drain(1, 5))) == {"unexpected": 1}
    assert wrong(said(*put(1), *put(2, "fail"), *drain(1, 2))) == {"failed_found": 1}
    assert wrong(said(*take(1), *put(1), *drain())) == {"early": 1}
    unknown = said(*put(1), *put(2, "info"), *drain(1, 2))
    assert (wrong(unknown), unknown.counts["recovered"]) == ({}, 1)
    begun, ended = put(2, process=3)
    assert wrong(said(*put(1), begun, *take(2), ended, *drain(1))) == {}


def test_a_duplicate_is_counted_and_wrong_only_where_it_should_be_there_once() -> None:
    rows = [*put(1), *take(1), *drain(1)]
    assert (wrong(said(*rows)), said(*rows).counts["duplicated"]) == ({}, 1)
    assert wrong(said(*rows, once=True)) == {"duplicated": 1}


def test_nothing_acknowledged_is_vacuous() -> None:
    assert [each.name for each in said(*put(1, "info"), *drain()).doubts] == ["vacuous"]


def test_elements_of_other_histories_may_be_texts(tmp_path: Path) -> None:
    ops = [
        {"process": 1, "type": "invoke", "f": "enqueue", "value": "a"},
        {"process": 1, "type": "ok", "f": "enqueue", "value": "a"},
        {"process": 1, "type": "invoke", "f": "enqueue", "value": "b"},
        {"process": 1, "type": "info", "f": "enqueue", "value": "timed-out"},
        {"process": 2, "type": "invoke", "f": "drain", "value": None},
        {"process": 2, "type": "ok", "f": "drain", "value": ["b", "c"]},
    ]
    counts = judged(tmp_path, ("texts", ops))["texts"]["counts"]
    assert [counts[name] for name in ("lost", "recovered", "unexpected")] == [1, 1, 1]
