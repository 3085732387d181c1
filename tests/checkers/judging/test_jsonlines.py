"""Histories from elsewhere: what each line may be, and the one sentence for what it may not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.judging.jsonlines import convert
from checkers.judging.many_runs import check_histories
from harness.errors import AcklossError, HistoryError, PlanError
from harness.protocols import Facts

ADD = {"process": 0, "type": "invoke", "f": "add", "value": 1}


BEGIN = {"process": 1, "type": "invoke", "f": "read", "value": None}


def read(*values: int) -> list[dict[str, Any]]:
    """A read that begins and ends here."""
    return [BEGIN, {**BEGIN, "type": "ok", "value": list(values)}]


def add(value: int, end: str = "ok", process: int = 0) -> list[dict[str, Any]]:
    """An add that begins and ends here."""
    begin = {**ADD, "process": process, "value": value}
    return [begin, {**begin, "type": end}]


def lines(*ops: object) -> bytes:
    return b"".join(orjson.dumps(op) + b"\n" for op in ops)


BAD: dict[str, tuple[bytes, str, str]] = {
    "empty": (b"", "", "is empty"),
    "blank": (b"\n  \n", "", "is empty"),
    "cut-off": (lines(ADD) + b'{"process": 0, "ty', ":2", "is cut off"),
    "not-json": (b"hello\n", ":1", "is not JSON"),
    "parquet": (b"PAR1\x15\x04\x15\xff\n\x00PAR1", ":1", "is not JSON"),
    "a-list": (lines([1]), ":1", "is not a JSON object"),
    "unknown-type": (lines(ADD, {**ADD, "type": "okay"}), ":2", "'okay' is not one of invoke, ok"),
    "no-type": (lines({"f": "add", "value": 1, "process": 0}), ":1", "None is not one of"),
    "no-f": (lines({"type": "ok", "value": 1, "process": 0}), ":1", "has no f"),
    "text-value": (lines({**ADD, "value": "17"}), ":1", "'17' is not an integer"),
    "fraction": (lines({**ADD, "value": 1.5}), ":1", "1.5 is not an integer"),
    "true": (lines({**ADD, "value": True}), ":1", "True is not an integer"),
    "no-value": (lines({**ADD, "value": None}), ":1", "None is not an integer"),
    "too-large": (lines({**ADD, "value": 2**63}), ":1", "is not an integer of 64 bits"),
    "no-process": (lines({"type": "ok", "f": "add", "value": 1}), ":1", "None is not an integer"),
    "odd-process": (lines({**ADD, "process": -4}), ":1", "-4 is not a process number"),
    "text-time": (lines({**ADD, "time": "now"}), ":1", "'now' is not an integer"),
    "text-index": (lines({**ADD, "index": "0"}), ":1", "'0' is not an integer"),
    "index-backwards": (
        lines(
            *({**op, "index": n} for n, op in zip((2, 3, 0, 1), [*read(1), *add(1)], strict=True))
        ),
        ":3",
        "index 0 follows 3",
    ),
    "index-twice": (
        lines({**ADD, "index": 4}, {**ADD, "f": "x", "index": 4}),
        ":2",
        "4 follows",
    ),
    "read-of-one": (lines({"type": "ok", "f": "read", "value": 3}), ":1", "is a list"),
    "read-of-text": (lines({"type": "ok", "f": "read", "value": [1, "2"]}), ":1", "'2' is not"),
    "twice": (lines(*add(1), *add(2), *add(1, process=3)), ":5", "the value 1 is added twice"),
    "twice-at-once": (lines(ADD, {**ADD, "process": 4}), ":2", "the value 1 is added twice"),
    "twice-behind-others": (
        lines(*add(9), *read(9)) + b"\n" + lines(ADD, *read(), ADD, *add(9)),
        ":9",
        "the value 1 is added twice",
    ),
    "ended-twice": (lines(*add(1, "info"), {**ADD, "type": "ok"}), ":3", "1 has ended twice"),
    "ended-first": (lines(*reversed(add(1))), ":2", "ended before it was added"),
    "newer": (lines({**ADD, "schema": 2}), ":1", "has schema 2, this ackloss reads 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_lines_are_reported_with_file_and_line(name: str, tmp_path: Path) -> None:
    content, place, what = BAD[name]
    file = tmp_path / f"{name}.jsonl"
    file.write_bytes(content)
    with pytest.raises(HistoryError) as caught:
        convert(file, tmp_path / "out")
    assert caught.value.file == f"{file}{place}"
    assert what in str(caught.value)
    assert caught.value.exit_code == 4


def test_a_folder_is_no_history(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="cannot be read: Is a directory"):
        convert(tmp_path, tmp_path / "out")


def converted(tmp_path: Path, *ops: object) -> tuple[Facts, pa.Table, pa.Table]:
    file = tmp_path / "mine.jsonl"
    file.write_bytes(lines(*ops))
    facts = convert(file, tmp_path / "out")
    return facts, whole(facts.history), whole(facts.reads)


def whole(parts: tuple[Path, ...]) -> pa.Table:
    return pa.concat_tables(map(pq.read_table, parts)) if parts else pa.table({})


def test_adds_become_writes_that_were_due_when_they_began(tmp_path: Path) -> None:
    ops: list[dict[str, Any]] = [
        {**ADD, "time": 10},
        {**ADD, "type": "info", "time": 30, "error": ["timeout", 5]},
        {**ADD, "type": "ok", "value": 2, "time": 40},
        {"type": "info", "f": "start", "process": "nemesis", "value": "majority"},
    ]
    facts, history, _ = converted(tmp_path, *ops)
    columns = ("run_id", "index", "type", "f", "value", "partition", "intended_ns", "time_ns")
    assert [tuple(row[name] for name in columns) for row in history.to_pylist()] == [
        ("mine", 0, "invoke", "append", 1, 0, 10, 10),
        ("mine", 1, "info", "append", 1, 0, 10, 30),
        ("mine", 2, "ok", "append", 2, 0, 40, 40),
    ]
    assert history["error"].to_pylist() == [None, '["timeout",5]', None]
    assert facts.run_id == "mine"
    assert facts.timed
    assert not facts.ends


def test_the_last_ok_read_counts(tmp_path: Path) -> None:
    facts, _, reads = converted(
        tmp_path, *read(5), *read(2, 1, 2), BEGIN, {**BEGIN, "type": "fail"}
    )
    assert reads["value"].to_pylist() == [2, 1, 2]
    assert len(set(reads["offset"].to_pylist())) == 3
    assert facts.read_whole
    assert not facts.history


FINAL: dict[str, tuple[list[object], bool, list[int]]] = {
    "after-the-last-add": ([*add(1), *read(1)], True, [1]),
    "after-info": ([*add(1), *add(2, "info"), *read(1)], True, [1]),
    "after-fail": ([*add(1), *add(2, "fail"), *read(1)], True, [1]),
    "no-adds": ([*read(1)], True, [1]),
    "an-add-that-never-completes": ([*add(1), {**ADD, "value": 2}, *read(1)], True, [1]),
    "an-add-that-begins-later-and-never-completes": (
        [*add(1), *read(1), {**ADD, "value": 2}],
        True,
        [1],
    ),
    "the-last-is-info": (
        [*add(1), *read(1), *add(2), *add(3), BEGIN, {**BEGIN, "type": "info"}],
        False,
        [1],
    ),
    "before-an-ok": ([*add(1), *read(1), *add(2)], False, [1]),
    "before-a-fail": ([*add(1), *read(1), *add(2, "fail")], False, [1]),
    "before-an-info": ([*add(1), *read(1), *add(2, "info")], False, [1]),
    "begun-too-early": ([ADD, BEGIN, {**ADD, "type": "ok"}, read(7)[1]], False, [7]),
    "an-early-one-ends-last": (
        [BEGIN, *add(1), {**BEGIN, "process": 2}, {**read(1)[1], "process": 2}, read()[1]],
        True,
        [1],
    ),
    "no-invocation-in-the-file": ([*add(1), read(1)[1]], True, [1]),
    "no-invocation-in-the-file-and-an-add-after": ([*add(1), read(1)[1], *add(2)], False, [1]),
    "invocation-of-another": ([*add(1), {**BEGIN, "process": 2}, read(1)[1]], False, [1]),
    "two-open-on-a-process": ([BEGIN, *add(1), BEGIN, read(1)[1]], False, [1]),
    "two-ends-of-one": ([*add(1), *read(1), *add(2), read(1)[1]], False, [1]),
}


@pytest.mark.parametrize("name", FINAL)
def test_a_final_read_begins_after_every_add_has_completed(name: str, tmp_path: Path) -> None:
    ops, final, values = FINAL[name]
    facts, _, reads = converted(tmp_path, *ops)
    assert facts.read_whole is final
    assert bool(facts.gaps.reads) is not final
    assert reads["value"].to_pylist() == values


@pytest.mark.spark
def test_without_a_final_read_nothing_is_lost(spark: object, tmp_path: Path) -> None:
    file = tmp_path / "early.jsonl"
    file.write_bytes(lines(*FINAL["the-last-is-info"][0]))
    (document,) = check_histories([file])
    counts = document["counts"]
    assert document["verdict"] == "unknown"
    assert document["reason"].startswith("no read begins after the last add")
    assert (counts["acknowledged"], counts["survivors"]) == (3, 1)
    assert (counts["lost"], counts["not_yet_visible"]) == (0, 2)


def test_without_times_nothing_is_timed(tmp_path: Path) -> None:
    facts, _, _ = converted(tmp_path, ADD)
    assert not facts.timed


def test_large_files_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("checkers.judging.jsonlines._PART_ROWS", 4)
    facts, history, _ = converted(tmp_path, *({**ADD, "value": n} for n in range(10)))
    assert len(facts.history) == 3
    assert history["value"].to_pylist() == list(range(10))
    assert history["index"].to_pylist() == list(range(10))


@pytest.mark.spark
def test_bad_files_do_not_keep_the_others_from_being_judged(spark: object, tmp_path: Path) -> None:
    names = ("good", "bad", "unread")
    files = [tmp_path / f"{name}.jsonl" for name in names]
    files[0].write_bytes(lines(*add(1), *read(1, 2)))
    files[1].write_bytes(b"{")
    files[2].write_bytes(lines(ADD, {**ADD, "type": "ok"}))
    errors: list[AcklossError] = []
    good, unread = check_histories(files, errors=errors)
    assert (good["run_id"], good["verdict"]) == ("good", "invalid")
    assert good["reason"] == "1 value was read that was never written there"
    assert good["plan"] is None
    assert good["availability"]["latency_p50_ms"] is None
    assert (unread["verdict"], unread["reason"]) == (
        "unknown",
        "nothing was read back; 1 acknowledged write may stand beyond what was read",
    )
    assert unread["complete"] is False
    assert [error.file for error in errors] == [f"{files[1]}:1"]
    with pytest.raises(HistoryError, match="is cut off"):
        check_histories(files)


@pytest.mark.spark
def test_a_history_of_reads_alone(spark: object, tmp_path: Path) -> None:
    file = tmp_path / "reads.jsonl"
    file.write_bytes(lines(*read(4, 5)))
    (document,) = check_histories([file])
    assert (document["verdict"], document["counts"]["unexpected"]) == ("invalid", 2)


@pytest.mark.spark
def test_histories_of_the_same_name_are_distinguished(spark: object, tmp_path: Path) -> None:
    files = [tmp_path / folder / "same.jsonl" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir()
    files[0].write_bytes(lines(*add(1), *read(1)))
    files[1].write_bytes(lines(*add(1), *read()))
    assert [document["verdict"] for document in check_histories(files)] == ["valid", "invalid"]


@pytest.mark.spark
def test_an_option_of_the_checker(spark: object, tmp_path: Path) -> None:
    file = tmp_path / "twice.jsonl"
    file.write_bytes(lines(*add(1), *read(1, 1)))
    (plain,) = check_histories([file])
    (strict,) = check_histories([file], options={"idempotent_producer": "true"})
    assert (plain["verdict"], plain["counts"]["duplicates"]) == ("valid", 1)
    assert strict["verdict"] == "invalid"


def test_an_unknown_checker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="did you mean 'loss'"):
        check_histories([tmp_path / "x.jsonl"], checker="los")


KEYS = {
    **dict.fromkeys(("unknown-type", "no-type"), "type"),
    **dict.fromkeys(("text-value", "fraction", "true", "no-value", "too-large"), "value"),
    **dict.fromkeys(("read-of-one", "read-of-text", "twice", "ended-twice"), "value"),
    **dict.fromkeys(("no-process", "odd-process"), "process"),
    "no-f": "f",
    "text-time": "time",
    **dict.fromkeys(("text-index", "index-backwards", "index-twice"), "index"),
    "newer": "schema",
}


@pytest.mark.parametrize("name", [name for name in BAD if name in KEYS or "not" in name])
def test_bad_fields_are_named(name: str, tmp_path: Path) -> None:
    file = tmp_path / f"{name}.jsonl"
    file.write_bytes(BAD[name][0])
    with pytest.raises(HistoryError) as caught:
        convert(file, tmp_path / "out")
    assert caught.value.key == KEYS.get(name)
    repeated = name in ("twice", "ended-twice")
    assert caught.value.hint == ("give every add its own value" if repeated else None)


def test_lines_follow_their_index_where_they_have_one(tmp_path: Path) -> None:
    """Other operations lie between, and some tools leave it at -1."""
    ops = [*add(1), *read(1)]
    for indices in ((0, 1, 2, 3), (0, 7, 8, 20), (-1, -1, -1, -1), (3, None, -1, 4)):
        reported = [{**op, "index": index} for op, index in zip(ops, indices, strict=True)]
        facts, _, _ = converted(tmp_path, *reported)
        assert facts.read_whole


@pytest.mark.parametrize("process", [2**31, 2**32 - 1, -1])
def test_a_process_is_a_number_of_31_bits(process: int, tmp_path: Path) -> None:
    _, history, _ = converted(tmp_path, {**ADD, "process": 2**31 - 1})
    assert history["process"].to_pylist() == [2**31 - 1]
    with pytest.raises(HistoryError, match=f"{process} is not a process number"):
        converted(tmp_path, {**ADD, "process": process})


@pytest.mark.parametrize("value", [-(2**63), 2**63 - 1])
def test_a_value_has_64_bits(value: int, tmp_path: Path) -> None:
    _, history, _ = converted(tmp_path, {**ADD, "value": value})
    assert history["value"].to_pylist() == [value]


def test_a_write_that_was_not_begun_was_due_when_it_ended(tmp_path: Path) -> None:
    """Nor one that the process began with another value; without a time it is 0."""
    ops = [
        {**ADD, "process": 5, "type": "ok", "time": 7},
        {**ADD, "process": 6, "value": 2, "time": 8},
        {**ADD, "process": 6, "value": 3, "type": "ok", "time": 9},
        {**ADD, "process": 7, "value": 0, "type": "ok"},
    ]
    _, history, _ = converted(tmp_path, *ops)
    assert history["intended_ns"].to_pylist() == [7, 8, 9, 0]
    assert history["time_ns"].to_pylist() == [7, 8, 9, 0]


def test_errors_are_text_as_they_were_given(tmp_path: Path) -> None:
    errors: list[Any] = [None, "timeout", ["timeout", 5], "timeout", {"code": 7}, '"quoted"']
    ops = [{**ADD, "type": "info", "value": n, "error": e} for n, e in enumerate(errors)]
    _, history, _ = converted(tmp_path, *ops)
    assert history["error"].to_pylist() == [
        None, "timeout", '["timeout",5]', "timeout", '{"code":7}', '"quoted"',
    ]  # fmt: skip


def test_the_reader_of_a_history_is_the_history(tmp_path: Path) -> None:
    _, _, reads = converted(tmp_path, *add(1), *read(1, 4))
    assert reads["reader"].to_pylist() == ["history"] * 2
    assert reads["partition"].to_pylist() == [0, 0]
    assert reads["key"].to_pylist() == [None, None]
