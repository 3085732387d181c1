"""What became of an element: each outcome, and the order of operations at its edge."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from checkers.judging.one_run import checker_of, examine
from checkers.judging.outside import convert
from checkers.sets import POINTS, quantiles_ns
from checkers.sets.outcomes import rates_of
from harness.protocols.runs import NULL
from tests.checkers.sets.ops import (
    MS,
    Op,
    add,
    begin_add,
    begin_read,
    end_add,
    end_read,
    history,
    read,
    said,
    timed,
)

OUTCOMES = ("stable", "lost", "never_read")


def outcome(counts: dict[str, int]) -> str:
    """The outcome of the one element."""
    assert counts["attempted"] == 1
    (only,) = (name for name in OUTCOMES if counts.get(name))
    return only


EDGES: dict[str, tuple[list[Op | list[Op]], str]] = {
    "absent from a read that began after the add completed": ([add(1), read()], "lost"),
    "absent from a read that began just before the add completed": (
        [begin_add(1), begin_read(), end_add(1), end_read()],
        "never_read",
    ),
    "absent from a read that completed before the add did": (
        [begin_add(1), begin_read(), end_read(), end_add(1)],
        "never_read",
    ),
    "present in a read that is concurrent with the add": (
        [begin_read(), begin_add(1), end_read(1), end_add(1)],
        "stable",
    ),
    "present, then absent": ([add(1), read(1), read()], "lost"),
    "absent, then present": ([add(1), read(), read(1)], "stable"),
    "known by a read alone, then absent": ([begin_add(1), read(1), read()], "lost"),
    "absent from a read that began before the one that made it known completed": (
        [begin_add(1), begin_read(7), begin_read(8), end_read(1, process=7), end_read(process=8)],
        "never_read",
    ),
    "absent from a read that began after the one that made it known completed": (
        [begin_add(1), begin_read(7), end_read(1, process=7), begin_read(8), end_read(process=8)],
        "lost",
    ),
    "of overlapping reads the one that began last decides: without it": (
        [add(1), begin_read(7), begin_read(8), end_read(process=8), end_read(1, process=7)],
        "lost",
    ),
    "of overlapping reads the one that began last decides: with it": (
        [add(1), begin_read(7), begin_read(8), end_read(1, process=8), end_read(process=7)],
        "stable",
    ),
    "reads that completed before the add began are passed over, those around them are not": (
        [
            *(begin_read(process) for process in (5, 6, 7, 8)),
            end_read(process=7),
            end_read(process=8),
            begin_add(1),
            end_read(process=6),
            end_read(1, process=5),
        ],
        "never_read",
    ),
    "no read at all": ([add(1)], "never_read"),
    "a read that is info says nothing, though it has a value": (
        [add(1), read(1), read(end="info")],
        "stable",
    ),
    "a read that is fail says nothing, though it has a value": (
        [add(1), read(1), read(end="fail")],
        "stable",
    ),
    "an info read with the element does not save it": (
        [add(1), read(), read(1, end="info")],
        "lost",
    ),
    "an unknown add that was never read is not lost": ([add(1, "info"), read()], "never_read"),
    "a failed add that was never read is not lost": ([add(1, "fail"), read()], "never_read"),
    "an add that never completed is not lost": ([begin_add(1), read()], "never_read"),
}


@pytest.mark.parametrize("edge", EDGES)
def test_the_outcome_of_an_element(edge: str, tmp_path: Path) -> None:
    ops, expected = EDGES[edge]
    assert outcome(said(tmp_path, *ops).counts) == expected


def test_info_adds_are_not_acknowledged(tmp_path: Path) -> None:
    answer = said(tmp_path, add(1), add(2, "info"), add(3, "fail"), begin_add(4), read(1))
    counted = [answer.counts[name] for name in ("attempted", "acknowledged", "failed", "unknown")]
    assert counted == [4, 1, 1, 2]
    assert answer.judged.verdict == "valid"


def test_unknown_adds_that_are_read_are_recovered(tmp_path: Path) -> None:
    answer = said(tmp_path, add(1), add(2, "info"), begin_add(3), add(4, "info", 1), read(1, 2, 3))
    assert (answer.counts["recovered"], answer.counts["stable"]) == (2, 3)
    assert answer.counts["unacknowledged_found"] == 2
    assert answer.final["unknown_found"] == 2
    assert answer.judged.verdict == "valid"


def test_an_unknown_add_that_was_read_can_be_lost(tmp_path: Path) -> None:
    answer = said(tmp_path, add(1), add(2, "info"), read(1, 2), read(1))
    assert (answer.counts["lost"], answer.counts["lost_unacknowledged"]) == (1, 1)
    assert answer.counter_examples == ["lost"]


def test_the_loss_rate_is_that_of_acknowledged_elements() -> None:
    counts = Counter(attempted=10, acknowledged=8, unknown=2, stable=5, lost=4)
    rates = rates_of(counts)
    assert (rates["ack"], rates["loss"]) == (0.8, 0.5)
    assert rates_of(counts | Counter(lost_unacknowledged=2))["loss"] == 0.25
    assert set(rates_of(Counter()).values()) == {None}


def test_unacknowledged_success_has_the_rates_of_the_loss_checker(tmp_path: Path) -> None:
    answer = said(
        tmp_path, add(1), add(2), add(3, "info"), add(4, "info"), add(5, "fail"), read(1, 2, 3, 5)
    )
    assert (answer.counts["recovered"], answer.counts["failed_found"]) == (1, 1)
    assert rates_of(Counter(answer.counts)) == {
        "ack": 0.4,
        "loss": 0.0,
        "unacknowledged_success": 1.0,
        "unacknowledged_success_of_unacknowledged": 2 / 3,
    }
    nothing = rates_of(Counter(attempted=3, acknowledged=3))
    assert (nothing["unacknowledged_success"], nothing["loss"]) == (0.0, 0.0)
    assert nothing["unacknowledged_success_of_unacknowledged"] is None


@pytest.mark.parametrize(("linearizable", "verdict"), [(False, "valid"), (True, "invalid")])
def test_stale_is_invalid_where_linearizability_is_asked_for(
    linearizable: bool, verdict: str, tmp_path: Path
) -> None:
    answer = said(tmp_path, add(1), read(), read(1), linearizable=linearizable)
    assert answer.counts == {"attempted": 1, "acknowledged": 1, "stable": 1, "stale": 1}
    assert answer.judged.verdict == verdict
    assert answer.counter_examples == (["stale"] if linearizable else [])


def test_a_read_that_is_concurrent_with_the_add_is_not_stale(tmp_path: Path) -> None:
    begun = begin_add(1), begin_read(), end_add(1), end_read()
    answer = said(tmp_path, *begun, read(1), linearizable=True)
    assert answer.counts == {"attempted": 1, "acknowledged": 1, "stable": 1}


def test_duplicates_are_within_a_read_and_not_across_reads(tmp_path: Path) -> None:
    assert "duplicated" not in said(tmp_path, add(1), read(1), read(1), read(1)).counts
    answer = said(tmp_path, add(1), add(2), read(1, 2, 1), read(2, 1, 2, 2), read(2, 1, 2, 2))
    assert answer.counts["duplicated"] == 2
    found = answer.found("duplicated")
    assert [(row["value"], row["copies"]) for row in found] == [(1, 2), (2, 3)]
    assert [row["read_invoke_index"] for row in found] == [4, 6]
    assert answer.final["duplicates"] == 2


def test_lost_and_stale_say_which_reads_prove_it(tmp_path: Path) -> None:
    answer = said(
        tmp_path, add(1, process=3), read(1, process=4), read(process=5), add(2, process=6),
        read(process=7), read(2, process=8),
    )  # fmt: skip
    (lost,) = answer.found("lost")
    assert lost == {
        "kind": "lost",
        "value": 1,
        "process": 3,
        "type": "ok",
        "invoke_index": 0,
        "complete_index": 1,
        "invoke_ns": 0,
        "complete_ns": 1_000_000,
        "read_process": 8,
        "read_invoke_index": 10,
        "read_complete_index": 11,
        "read_invoke_ns": 10_000_000,
        "read_complete_ns": 11_000_000,
        "seen_process": 4,
        "seen_invoke_index": 2,
        "seen_complete_index": 3,
        "seen_invoke_ns": 2_000_000,
        "seen_complete_ns": 3_000_000,
        "latency_ns": 1_000_001,
    }
    (stale,) = answer.found("stale")
    assert (stale["value"], stale["read_process"], stale["seen_process"]) == (2, 7, 8)
    assert stale["latency_ns"] == 1_000_001


def test_latencies_are_quantiles_in_milliseconds(tmp_path: Path) -> None:
    reads = read(1, 2), read(2), read(2), add(3), read(2), read(2, 3)
    answer = said(tmp_path, add(1), add(2), *reads)
    document = answer.judged.result.details
    assert document["latencies_ms"]["lost"] == dict.fromkeys(("0", "0.5", "0.95", "0.99", "1"), 3.0)
    assert document["latencies_ms"]["stable"] == {
        "0": 0.0,
        "0.5": 1.0,
        "0.95": 1.0,
        "0.99": 1.0,
        "1": 1.0,
    }


def quantiles(*latencies_ns: int) -> dict[str, int]:
    return quantiles_ns(np.array(latencies_ns, np.int64))


def test_quantiles_are_at_the_place_below() -> None:
    assert quantiles(*range(100, 0, -1)) == {"0": 1, "0.5": 51, "0.95": 96, "0.99": 100, "1": 100}
    assert quantiles(3, 4) == {"0": 3, "0.5": 4, "0.95": 4, "0.99": 4, "1": 4}
    assert quantiles(5) == dict.fromkeys(POINTS, 5)


def test_unknown_latencies_are_left_out() -> None:
    assert quantiles(NULL, 7, NULL) == dict.fromkeys(POINTS, 7)
    assert quantiles(NULL) == {}


def test_a_loss_that_was_never_read_has_latency_0(tmp_path: Path) -> None:
    latencies = said(tmp_path, add(1), read()).judged.tally.lost_ns
    assert quantiles_ns(latencies)["1"] == 0


def test_a_set_that_was_never_read_is_unknown(tmp_path: Path) -> None:
    for more in ([], read(end="info"), read(end="fail")):
        answer = said(tmp_path, add(1), more)
        assert (answer.judged.verdict, answer.doubts) == ("unknown", ["incomplete"])
        assert answer.judged.result.details["final_read"] is None


UNANSWERED: dict[str, list[Op | list[Op]]] = {
    "info": [read(end="info"), read(end="info", process=8)],
    "fail": [read(end="fail"), read(end="fail", process=8)],
    "never completed": [begin_read(), begin_read(8)],
}


@pytest.mark.parametrize("linearizable", [False, True])
@pytest.mark.parametrize("reads", UNANSWERED.values(), ids=UNANSWERED)
def test_where_no_read_at_the_end_was_ok_the_set_is_unknown(
    reads: list[Op | list[Op]], linearizable: bool, tmp_path: Path
) -> None:
    before = add(1), read(1), add(2, "fail")
    answer = said(tmp_path, *before, *reads, linearizable=linearizable)
    assert (answer.judged.verdict, answer.doubts) == ("unknown", ["incomplete"])
    assert answer.judged.result.doubts[0].sentence == (
        "none of 2 reads at the end was ok: what was lost after the last ok read is not known"
    )
    assert said(tmp_path, *before, *reads, read(1, process=7)).judged.verdict == "valid"
    assert said(tmp_path, *before[:2], *reads).judged.verdict == "valid"


@pytest.mark.parametrize(("from_ns", "doubts"), [(4 * MS, ["incomplete"]), (2 * MS, [])])
def test_the_reads_at_the_end_of_a_run_are_those_of_its_final_scripts(
    from_ns: int, doubts: list[str], tmp_path: Path
) -> None:
    history(tmp_path, timed(add(1), read(1), read(end="fail")))
    facts = convert(tmp_path / "history.jsonl", tmp_path / "again", "set")
    facts = replace(facts, final_from_ns=from_ns)
    result = examine(facts, {"set": checker_of("set", {})}).results["set"]
    assert [each.name for each in result.doubts] == doubts


def test_a_counter_example_outweighs_a_doubt(tmp_path: Path) -> None:
    answer = said(tmp_path, add(1), read(), begin_read(), add(2), end_read())
    assert (answer.judged.verdict, answer.doubts) == ("invalid", ["not_yet_visible"])
    assert answer.counter_examples == ["lost"]


def test_the_last_read_is_the_one_that_completed_last(tmp_path: Path) -> None:
    # Both began after all adds; in that of the verdict, the one that began last counts.
    begun = add(1), add(2), begin_read(7), begin_read(8)
    answer = said(tmp_path, *begun, end_read(1, process=8), end_read(2, process=7))
    assert answer.final == {"attempted": 2, "acknowledged": 2, "survivors": 1, "lost": 1}
    assert answer.judged.result.details["final_read"]["process"] == 7
    assert [row["value"] for row in answer.found("lost")] == [2]


def test_a_last_read_that_is_not_final_says_so(tmp_path: Path) -> None:
    begun = add(1), read(), begin_add(2), begin_read()
    answer = said(tmp_path, *begun, end_add(2), end_read())
    last = answer.judged.tally.read
    assert last is not None
    assert (last["is_final"], last["index"]) == (False, 7)
    assert (answer.final["lost"], answer.final["not_yet_visible"]) == (1, 1)


def test_an_add_that_never_completes_keeps_no_read_from_being_final(tmp_path: Path) -> None:
    last = said(tmp_path, add(1), begin_add(2), read(1)).judged.tally.read
    assert last is not None
    assert last["is_final"]
