"""The register checker over histories of JSON lines: pairing, keys, counts, statements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from checkers.judging.one_run import checker_of, examine, judge_history
from checkers.judging.outside import convert
from checkers.register import Register
from harness.errors import HistoryError, PlanError
from harness.protocols import Promises
from harness.protocols.runs import Facts
from tests.fixtures.operation_rows import Row, checked

Op = dict[str, Any]

UNTESTED = "no key was read after a write of it had been acknowledged"


def op(process: int, type_: str, f: str, value: Any = None, **more: Any) -> Op:
    return {"process": process, "type": type_, "f": f, "value": value, **more}


def done(
    process: int, f: str, value: Any, returned: Any = None, end: str = "ok", **more: Any
) -> list[Op]:
    """An operation that begins and ends here; a read returns `returned`."""
    asked = None if f == "read" else value
    return [
        op(process, "invoke", f, asked, **more),
        op(process, end, f, returned if f == "read" else value, **more),
    ]


def judged(folder: Path, *ops: list[Op], **options: Any) -> dict[str, Any]:
    return judge_history(written(folder, *ops), {"register": checker_of("register", options)})


def written(folder: Path, *ops: list[Op]) -> Path:
    """The operations as JSON lines, a millisecond apart where they do not have a time."""
    lines = [
        {"index": n, "time": n * 1_000_000, **each}
        for n, each in enumerate(o for op in ops for o in op)
    ]
    file = folder / "h.jsonl"
    file.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))
    return file


def test_a_stale_read_is_not_linearizable_and_its_age_is_known(tmp_path: Path) -> None:
    document = judged(tmp_path, done(0, "write", 1), done(0, "write", 2), done(1, "read", None, 1))
    assert document["verdict"] == "invalid"
    assert document["reason"] == "1 of 1 key is not linearizable: the register"
    assert document["counter_examples"] == ["not_linearizable"]
    counts = document["counts"]
    assert (counts["stale_reads"], counts["stale_versions_max"]) == (1, 1)
    assert counts["stale_s_max"] == pytest.approx(0.001)
    (example,) = document["checks"][0]["details"]["examples"]
    last = example["operations"][-1]
    assert (last["row"], last["process"], last["f"], last["type"]) == (2, 1, "read", "ok")
    assert (last["value"], last["invoke_ns"], last["complete_ns"]) == (1, 4_000_000, 5_000_000)


@pytest.mark.parametrize(
    ("times", "age_ns"),
    [
        ([0] * 6, 1),
        ([0, 0, 1, 1, 2, 2], 1),
        ([10**9] * 4 + [2 * 10**9] * 2, 10**9 - 3),
        ([100, 99, 98, 97, 96, 95], 1),
        ([10, 20, 30, 29, 40, 50], 9),
    ],
    ids=["all equal", "two a tick", "a coarse clock", "backwards", "an end before its begin"],
)
def test_the_order_of_lines_counts_whatever_the_times_are(
    times: list[int], age_ns: int, tmp_path: Path
) -> None:
    ops = done(0, "write", 1) + done(0, "write", 2) + done(1, "read", None, 1)
    timed = [{**each, "time": time} for each, time in zip(ops, times, strict=True)]
    document = judged(tmp_path, timed)
    assert (document["verdict"], document["doubts"]) == ("invalid", [])
    assert document["counts"]["stale_s_max"] == pytest.approx(age_ns / 1e9)


def test_a_history_without_times_has_no_ages(tmp_path: Path) -> None:
    ops = done(0, "write", 1) + done(0, "write", 2) + done(1, "read", None, 1)
    file = tmp_path / "h.jsonl"
    file.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in ops))
    counts = judge_history(file, {"register": checker_of("register", {})})["counts"]
    assert (counts["stale_reads"], counts["stale_versions_max"]) == (1, 1)
    assert (counts["stale_s_p50"], counts["stale_s_max"]) == (None, None)


@pytest.mark.parametrize("time", [2**62, -(2**62), -(2**63), 2**63 - 1])
def test_a_time_that_no_clock_shows_is_refused(time: int, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="is not a time") as refused:
        judged(tmp_path, done(0, "write", 1, time=time))
    assert refused.value.exit_code == 4
    assert str(refused.value.file).endswith("h.jsonl:1")


def test_findings_name_the_keys_that_are_wrong_or_undecided(tmp_path: Path) -> None:
    right = done(0, "write", ["a", 1]) + done(1, "read", None, ["a", 1])
    wrong = done(0, "write", ["b", 5]) + done(1, "read", None, ["b", 6])
    facts = convert(written(tmp_path, right, wrong), tmp_path, "register")
    result = examine(facts, {"register": checker_of("register", {})}).results["register"]
    assert result.findings is not None
    (row,) = result.findings.to_pylist()
    known = {name: value for name, value in row.items() if value is not None}
    assert known == {"run_id": facts.run_id, "kind": "not_linearizable", "key": "b"}


def test_findings_have_each_stale_read_with_its_age(tmp_path: Path) -> None:
    ops = [done(0, "write", value) for value in (1, 2, 3)]
    facts = convert(written(tmp_path, *ops, done(1, "read", None, 1)), tmp_path, "register")
    result = examine(facts, {"register": checker_of("register", {})}).results["register"]
    assert result.findings is not None
    stale = [row for row in result.findings.to_pylist() if row["kind"] == "stale_reads"]
    assert [(row["process"], row["value"], row["versions"]) for row in stale] == [(1, 1, 2)]
    assert len(stale) == result.counts["stale_reads"]


def test_it_is_sequentially_consistent(tmp_path: Path) -> None:
    ops = done(0, "write", 1), done(0, "write", 2), done(1, "read", None, 1)
    document = judged(tmp_path, *ops, consistency="sequential")
    assert document["verdict"] == "valid"
    assert document["reason"] == "1 key is sequentially consistent"
    assert document["complete"]


def test_keys_are_judged_by_themselves(tmp_path: Path) -> None:
    document = judged(
        tmp_path,
        done(0, "write", ["a", 1]),
        done(0, "write", ["b", 5]),
        done(1, "read", None, ["a", 1]),
        done(1, "read", None, 5, key="b"),
        done(2, "cas", ["b", [5, 6]]),
        done(1, "read", None, ["b", 5]),
    )
    assert document["verdict"] == "invalid"
    assert document["reason"] == "1 of 2 keys is not linearizable: 'b'"
    counts = document["counts"]
    assert (counts["keys"], counts["cas"], counts["reads"], counts["writes"]) == (2, 1, 3, 2)
    assert (counts["attempted"], counts["acknowledged"]) == (3, 3)


def test_a_write_without_an_answer_may_have_happened_or_not(tmp_path: Path) -> None:
    kept = done(0, "write", 0), done(1, "read", None, 0)
    lost = done(0, "write", 1, end="info")
    assert judged(tmp_path, *kept, lost, done(1, "read", None, 1))["verdict"] == "valid"
    assert judged(tmp_path, *kept, lost, done(1, "read", None, 0))["verdict"] == "valid"
    both = *kept, lost, done(1, "read", None, 1), done(1, "read", None, 0)
    assert judged(tmp_path, *both)["verdict"] == "invalid"


def test_an_invocation_that_is_never_answered_is_unknown(tmp_path: Path) -> None:
    open_ = [op(0, "invoke", "write", 1)]
    document = judged(tmp_path, open_, done(1, "read", None, 1))
    assert (document["counter_examples"], document["counts"]["unknown"]) == ([], 1)
    again = judged(tmp_path, open_, done(2, "write", 2), done(1, "read", None, 1))
    assert again["verdict"] == "valid"


def test_a_failed_write_has_no_effect(tmp_path: Path) -> None:
    document = judged(tmp_path, done(0, "write", 1, end="fail"), done(1, "read", None, 1))
    assert document["verdict"] == "invalid"


@pytest.mark.parametrize(
    ("end", "reason"), [("ok", "nothing was read"), ("fail", "none of 1 operation was ok")]
)
def test_what_was_never_read_or_attempted_proves_nothing(
    end: str, reason: str, tmp_path: Path
) -> None:
    document = judged(tmp_path, done(0, "write", 1, end=end))
    assert (document["verdict"], document["doubts"]) == ("unknown", ["vacuous"])
    assert document["reason"] == reason


@pytest.mark.parametrize("end", ["fail", "info"])
def test_reads_alone_prove_nothing(end: str, tmp_path: Path) -> None:
    writes = done(0, "write", 1, end=end) + done(2, "write", 2, end=end)
    document = judged(tmp_path, writes, done(1, "read", None, None))
    assert (document["verdict"], document["doubts"]) == ("unknown", ["vacuous"])
    assert document["reason"] == "no write was acknowledged"


def test_a_read_of_another_key_proves_nothing(tmp_path: Path) -> None:
    document = judged(tmp_path, done(0, "write", ["a", 1]), done(1, "read", None, ["b", None]))
    assert (document["verdict"], document["doubts"]) == ("unknown", ["vacuous"])
    assert document["reason"] == UNTESTED
    also = (
        done(0, "write", ["a", 1]),
        done(1, "read", None, ["a", 1]),
        done(1, "read", None, ["b", None]),
    )
    assert judged(tmp_path, *also)["verdict"] == "valid"


def test_a_read_that_began_before_every_acknowledgement_proves_nothing(tmp_path: Path) -> None:
    early = done(1, "read", None, None), done(0, "write", 1)
    assert judged(tmp_path, *early)["reason"] == UNTESTED
    during = [op(0, "invoke", "write", 1), op(1, "invoke", "read")]
    ended = [op(0, "ok", "write", 1), op(1, "ok", "read", 1)]
    assert judged(tmp_path, during, ended)["reason"] == UNTESTED
    unanswered = done(1, "read", None, None, end="info"), done(2, "read", None, None, end="fail")
    assert judged(tmp_path, *early, *unanswered)["reason"] == UNTESTED
    assert judged(tmp_path, *early, done(1, "read", None, 1))["verdict"] == "valid"


def test_a_compare_and_set_is_acknowledged_too(tmp_path: Path) -> None:
    swap = [op(0, "invoke", "cas", [None, 1]), op(0, "ok", "cas", [None, 1])]
    assert judged(tmp_path, swap, done(1, "read", None, 1))["verdict"] == "valid"


def test_a_run_without_operations_proves_nothing() -> None:
    facts = Facts(run_id="r", history=(), reads=(), ends=(), promises=Promises(model="register"))
    result = examine(facts, {"register": checker_of("register", {})}).results["register"]
    assert list(result.doubts) == [("vacuous", "nothing was attempted")]


def test_a_search_that_gives_up_is_unknown(tmp_path: Path) -> None:
    begun = [op(n, "invoke", "write", 7) for n in range(8)]
    ended = [op(n, "ok", "write", 7) for n in range(8)]
    reads = [each for n in range(8, 11) for each in done(n, "cas", [7, 8])]
    last = done(20, "read", None, 7)
    document = judged(tmp_path, begun, ended, reads, last, states_count=1)
    assert document["verdict"] in ("unknown", "invalid")
    if document["verdict"] == "unknown":
        assert document["doubts"] == ["undecided"]
        assert document["eligible"]


@pytest.mark.parametrize(
    ("ops", "words"),
    [
        ([op(0, "ok", "write", 1)], "completes and was never invoked"),
        ([op(0, "invoke", "cas", 3)], r"the value of a cas is \[expected, new\]"),
        ([op(0, "invoke", "write", None)], "None is not an integer"),
        ([op(0, "invoke", "write", "x")], "'x' is not an integer"),
        ([op(0, "invoke", "write", -(2**63))], "stands for no value"),
        ([op(0, "invoke", "cas", [-(2**63), 1])], "stands for no value"),
        ([op(0, "invoke", "cas", [1, -(2**63)])], "stands for no value"),
        (done(0, "read", None, -(2**63)), "stands for no value"),
    ],
)
def test_bad_histories_are_refused_in_one_sentence(
    ops: list[Op], words: str, tmp_path: Path
) -> None:
    with pytest.raises(HistoryError, match=words) as refused:
        judged(tmp_path, ops)
    assert refused.value.exit_code == 4
    assert Path(str(refused.value.file).partition(":")[0]).name == "h.jsonl"


def test_a_read_that_was_answered_a_list_is_refused() -> None:
    """As a register without a value it would prove what it does not show."""
    written = [Row(f="write", value=7, key="k"), Row(f="write", type="fail", value=7, key="k")]
    read = [
        Row(f="read", process=1, key="k"),
        Row(f="read", process=1, type="ok", key="k", elements=(99,)),
    ]
    with pytest.raises(HistoryError, match="elements: the ok read at 3 has a list"):
        checked(Register(), [*written, *read])


def test_bad_options_are_refused() -> None:
    with pytest.raises(PlanError, match="states_count is at least 1"):
        checker_of("register", {"states_count": 0})
    with pytest.raises(PlanError):
        checker_of("register", {"consistency": "strict"})
