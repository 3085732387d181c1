"""Histories from outside: what each line may be, and the one sentence for what it may not."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.judging.many_runs import check_histories
from checkers.judging.one_run import checker_of, judge_history
from checkers.judging.outside import convert
from harness.errors import AcklossError, HistoryError
from harness.protocols import Facts
from tests.fixtures.command_line import ackloss

ADD = {"process": 0, "type": "invoke", "f": "add", "value": 1}


BEGIN = {"process": 1, "type": "invoke", "f": "read", "value": None}


def read(*values: int) -> list[dict[str, Any]]:
    """A read that begins and ends here."""
    return [BEGIN, {**BEGIN, "type": "ok", "value": list(values)}]


def add(value: Any, end: str = "ok", process: int = 0) -> list[dict[str, Any]]:
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
    "no-process": (lines({"type": "ok", "f": "add", "value": 1}), ":1", "None is not a process"),
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
    "read-of-none": (lines(BEGIN, {**BEGIN, "type": "ok"}), ":2", "is a list"),
    "read-of-text": (lines({"type": "ok", "f": "read", "value": [1, "2"]}), ":1", "'2' is not"),
    "read-of-true": (lines({"type": "ok", "f": "read", "value": [1, True]}), ":1", "True is not"),
    "read-of-large": (lines({"type": "ok", "f": "read", "value": [2**63]}), ":1", "of 64 bits"),
    "twice": (lines(*add(1), *add(2), *add(1, process=3)), ":5", "the value 1 is added twice"),
    "twice-at-once": (lines(ADD, {**ADD, "process": 4}), ":2", "the value 1 is added twice"),
    "twice-behind-others": (
        lines(*add(9), *read(9))
        + b"\n"
        + lines(ADD, *read(), *add(1, process=3), *add(9, process=4)),
        ":9",
        "the value 1 is added twice",
    ),
    "ended-twice": (lines(*add(1, "info"), {**ADD, "type": "ok"}), ":3", "was never invoked"),
    "ended-first": (lines(*reversed(add(1))), ":1", "was never invoked"),
    "stray-read": (lines(BEGIN, *add(1), {**read(1)[1], "process": 2}), ":4", "never invoked"),
    "two-ends": (lines(*read(1), *add(2), read(1)[1]), ":5", "ok read completes and was never"),
    "two-open": (lines(BEGIN, *add(1), BEGIN), ":4", "invokes read while its read of line 1 is"),
    "other-f": (lines(ADD, {**BEGIN, "process": 0, "type": "info"}), ":2", "line 1 invoked add"),
    "other-value": (lines(ADD, add(2)[1]), ":2", "the value 2 is not 1, which line 1 invoked"),
    "other-key": (lines(add([1, 2])[0], add([3, 2])[1]), ":2", "the key 3 is not 1, which line 1"),
    "a-true": (lines(ADD, {**ADD, "type": "ok", "value": True}), ":2", "True is not an integer"),
    "numeric-f": (lines({**ADD, "f": 4}), ":1", "has no f"),
    "newer": (lines({**ADD, "schema": 2}), ":1", "has schema 2, this ackloss reads 1"),
}


KEYS = {
    **dict.fromkeys(("unknown-type", "no-type", "ended-twice", "ended-first"), "type"),
    **dict.fromkeys(("stray-read", "two-ends"), "type"),
    **dict.fromkeys(("no-f", "other-f", "numeric-f"), "f"),
    **dict.fromkeys(("no-process", "odd-process", "two-open"), "process"),
    **dict.fromkeys(("text-index", "index-backwards", "index-twice"), "index"),
    "text-time": "time",
    "other-key": "key",
    "newer": "schema",
    **dict.fromkeys(("empty", "blank", "cut-off", "not-json", "parquet", "a-list")),
}
"""The key that is named, where it is not the value."""


@pytest.mark.parametrize("model", ["log", "set"])
@pytest.mark.parametrize("name", BAD)
def test_bad_lines_are_reported_with_file_line_and_key(
    name: str, model: str, tmp_path: Path
) -> None:
    content, place, what = BAD[name]
    file = tmp_path / f"{name}.jsonl"
    file.write_bytes(content)
    with pytest.raises(HistoryError) as caught:
        convert(file, tmp_path / "out", model)
    error = caught.value
    assert (error.file, error.key) == (f"{file}{place}", KEYS.get(name, "value"))
    assert what in str(error)
    assert error.exit_code == 4
    assert error.hint == ("give every add its own value" if "twice" in what else None)


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
        *({**each, "time": 40} for each in add(2, process=4)),
        {"type": "info", "f": "start", "process": "nemesis", "value": "majority"},
    ]
    facts, history, _ = converted(tmp_path, *ops)
    columns = ("run_id", "index", "type", "f", "value", "partition", "intended_ns", "time_ns")
    assert [tuple(row[name] for name in columns) for row in history.to_pylist()] == [
        ("mine", 0, "invoke", "append", 1, 0, 10, 10),
        ("mine", 1, "info", "append", 1, 0, 10, 30),
        ("mine", 2, "invoke", "append", 2, 0, 40, 40),
        ("mine", 3, "ok", "append", 2, 0, 40, 40),
    ]
    assert history["error"].to_pylist() == [None, '["timeout",5]', None, None]
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
    "the-last-when-an-earlier-one-ceases-to-be-final": (
        [{**BEGIN, "process": 2}, *add(1), *read(1), {**read()[1], "process": 2}, *add(3)],
        False,
        [],
    ),
}


@pytest.mark.parametrize("name", FINAL)
def test_a_final_read_begins_after_every_add_has_completed(name: str, tmp_path: Path) -> None:
    ops, final, values = FINAL[name]
    facts, _, reads = converted(tmp_path, *ops)
    assert facts.read_whole is final
    assert bool(facts.gaps.reads) is not final
    assert (reads["value"].to_pylist() if facts.reads and len(reads) else []) == values


def test_without_a_final_read_nothing_is_lost(tmp_path: Path) -> None:
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
    monkeypatch.setattr("checkers.judging.outside._PART_ROWS", 4)
    facts, history, _ = converted(tmp_path, *({**ADD, "value": n, "process": n} for n in range(10)))
    assert len(facts.history) == 3
    assert history["value"].to_pylist() == list(range(10))
    assert history["index"].to_pylist() == list(range(10))


def test_bad_files_do_not_keep_the_others_from_being_judged(tmp_path: Path) -> None:
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


def test_a_history_of_reads_alone(tmp_path: Path) -> None:
    file = tmp_path / "reads.jsonl"
    file.write_bytes(lines(*read(4, 5)))
    (document,) = check_histories([file])
    assert (document["verdict"], document["counts"]["unexpected"]) == ("invalid", 2)


def test_histories_of_the_same_name_are_distinguished(tmp_path: Path) -> None:
    files = [tmp_path / folder / "same.jsonl" for folder in ("a", "b")]
    for file in files:
        file.parent.mkdir()
    files[0].write_bytes(lines(*add(1), *read(1)))
    files[1].write_bytes(lines(*add(1), *read()))
    assert [document["verdict"] for document in check_histories(files)] == ["valid", "invalid"]


def test_an_option_of_the_checker(tmp_path: Path) -> None:
    file = tmp_path / "twice.jsonl"
    file.write_bytes(lines(*add(1), *read(1, 1)))
    (plain,) = check_histories([file])
    (strict,) = check_histories([file], options={"idempotent_producer": "true"})
    assert (plain["verdict"], plain["counts"]["duplicates"]) == ("valid", 1)
    assert strict["verdict"] == "invalid"


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
    """One without a time has that of the line before, and nothing is timed."""
    ops = [
        {**ADD, "process": 5, "type": "ok", "time": 7},
        {**ADD, "process": 7, "value": 0, "type": "ok", "time": None},
    ]
    facts, history, _ = converted(tmp_path, *ops)
    assert history["intended_ns"].to_pylist() == [7, 7]
    assert history["time_ns"].to_pylist() == [7, 7]
    assert not facts.timed


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


def said(folder: Path, text: str | bytes, checker: str = "register", name: str = "h") -> Any:
    """The verdict, or the error, of a file."""
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    try:
        return judge_history(file, {checker: checker_of(checker, {})})["verdict"]
    except HistoryError as error:
        return str(error).removeprefix(str(file))


WRITE = """{:process 0, :type :invoke, :f :write, :value 3}
{:process 0, :type :ok, :f :write, :value 3}"""
SHAPES = {
    "edn lines": "{}",
    "edn vector": "[{}]",
    "edn after comments": ";; by hand\n\n ; {{\n[ ; (\n{}\n#_ {{:type :ok}}]\n; end",
    "edn list": "\n\n({})",
    "edn with a tag": "#jepsen.history.History[{}]",
    "json lines": "{}",
    "json array": "[{}]",
    "json array on lines": " [\n\n{}\n]\n",
}


@pytest.mark.parametrize("packed", ["plain", "bom", "gzip"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_shape_of_a_file_is_seen_in_it(shape: str, packed: str, tmp_path: Path) -> None:
    """Whatever its name; a read of what was written is valid, and of something else is not."""
    for value, verdict in ((3, "valid"), (4, "invalid")):
        text = f"{WRITE}\n{{:process 1, :type :invoke, :f :read, :value nil}}\n"
        text += f"{{:process 1, :type :ok, :f :read, :value {value}}}"
        if shape.startswith("json"):
            words = (("nil", "null"), (" :invoke", '"invoke"'), (" :ok", '"ok"'))
            for word, other in (*words, (" :read", '"read"'), (" :write", '"write"')):
                text = text.replace(word, other)
            text = re.sub(r":(\w+) ?", r'"\1":', text)
            if "array" in shape:
                text = text.replace("}\n", "},\n" if "lines" in shape else "},")
        content = SHAPES[shape].format(text).encode()
        content = {"plain": b"", "bom": b"\xef\xbb\xbf", "gzip": b""}[packed] + content
        name = "history.txt"
        if packed == "gzip":
            content, name = gzip.compress(content), "history"
        assert said(tmp_path, content, name=name) == verdict


def test_what_is_cut_off_in_any_shape_is_refused(tmp_path: Path) -> None:
    op = '{"process": 0, "type": "invoke",\n "f": "write", "value": 7}'
    assert said(tmp_path, f"[{op},\n {op[:-3]}") == ":3: is cut off: its last line is incomplete"
    assert said(tmp_path, f"[{op},\n") == ":1: is cut off: its array is not closed"
    assert said(tmp_path, f"[{op} oh\n, 3]\n").startswith(":2: is not JSON")
    assert "is cut off, or not gzip" in said(tmp_path, gzip.compress(op.encode())[:-9])


def test_standard_input_is_a_history(tmp_path: Path) -> None:
    good = lines(*add(1), *read(1))
    for content, code in ((good, 0), (gzip.compress(good), 0), (lines(*add(1), *read()), 1)):
        done = ackloss("check", "--history", "-", "--json", stdin=content)
        assert (done.exit_code, json.loads(done.stdout)["run_id"]) == (code, "stdin")
    done = ackloss("check", "--history", "-", stdin=lines(ADD, ADD))
    assert done.exit_code == 4
    assert done.stderr.startswith("ackloss: -:2: process: process 0 invokes add while")


@pytest.mark.parametrize("given", [None, "timed-out", ":timed-out", ...])
@pytest.mark.parametrize("end", ["ok", "fail", "info"])
def test_a_completion_without_a_value_has_that_of_its_invocation(
    end: str, given: Any, tmp_path: Path
) -> None:
    def history(*ops: dict[str, Any]) -> bytes:
        ended = [op for op in ops if op["type"] == end and op["f"] != "read"]
        for op in ended:
            del op["value"]
            if given is not ...:
                op["value"] = given
        assert ended
        return lines(*ops)

    sure = {"process": 9, "f": "write", "value": 5}
    both = [{**sure, "type": "invoke"}, {**sure, "type": "ok", "value": 5}]
    for f, value in (("write", 4), ("cas", [5, 4]), ("write", ["k", 4]), ("cas", ["k", [5, 4]])):
        key = "k" if "k" in (value if isinstance(value, list) else ()) else None
        write = {"process": 0, "f": f, "value": value}
        asked = {**BEGIN, "type": "ok", "value": 4 if key is None else [key, 4]}
        first = [{**op, "key": key} for op in both]
        ops = [*first, {**write, "type": "invoke"}, {**write, "type": end}, BEGIN, asked]
        assert said(tmp_path, history(*ops)) == ("invalid" if end == "fail" else "valid")
    ops = [*add(1), *add(2), *read(1, 2)]
    ops[3]["type"] = end
    adds = history(*ops) if end != "ok" else history(*ops, *read(1, 2))
    assert said(tmp_path, adds, "loss") == ("invalid" if end == "fail" else "valid")


def test_the_keyword_in_place_of_a_value_is_the_error(tmp_path: Path) -> None:
    facts, history, _ = converted(tmp_path, ADD, {**ADD, "type": "info", "value": "timed-out"})
    assert history["error"].to_pylist() == [None, "timed-out"]
    assert facts.run_id == "mine"


@pytest.mark.parametrize("process", ["nemesis", ":nemesis", "nemesis-2", "partitioner", -1, None])
@pytest.mark.parametrize("checker", ["loss", "register", "set", "kafka"])
def test_a_nemesis_is_recognised_by_its_process(checker: str, process: Any, tmp_path: Path) -> None:
    """Whatever it does: its function may be one of the clients', or none."""
    good = {
        "register": [
            {**ADD, "f": "write"},
            {**ADD, "f": "write", "type": "ok"},
            BEGIN,
            {**BEGIN, "type": "ok", "value": 1},
        ],
        "kafka": [
            {"process": 0, "type": "invoke", "f": "send", "value": [["send", 1, 2]]},
            {"process": 0, "type": "ok", "f": "send", "value": [["send", 1, [0, 2]]]},
            {"process": 1, "type": "invoke", "f": "poll", "value": [["poll"]]},
            {"process": 1, "type": "ok", "f": "poll", "value": [["poll", {"1": [[0, 2]]}]]},
        ],
    }.get(checker, [*add(1), *read(1)])
    nemesis = [
        {"process": process, "type": "info", "f": f, "value": value}
        for f, value in (("read", ["n1", "cut"]), ("write", {"n1": 3}), ("start", 7), (None, None))
    ]
    assert said(tmp_path, lines(nemesis[0], *good[:3], *nemesis, good[3]), checker) == "valid"
    if process == "nemesis":
        begun = {**nemesis[0], "type": "invoke"}
        assert said(tmp_path, lines(begun, *good[:3], *nemesis, good[3]), checker) == "valid"


def test_a_client_may_have_a_name(tmp_path: Path) -> None:
    for value, verdict in ((1, "valid"), (2, "invalid")):
        ops = [*add(1, process="a"), *read(value)]  # type: ignore[arg-type]
        assert said(tmp_path, lines(*ops), "loss") == verdict


@pytest.mark.parametrize(
    ("checker", "op", "what"),
    [
        (
            "register",
            ("txn", [["append", 1, 1], ["r", 1, None]]),
            "holds transactions of append and r",
        ),
        ("loss", ("txn", [["append", 1, 1], ["r", 1, None]]), "use --checker list-append"),
        ("set", ("txn", [["w", 1, 1]]), "use --checker rw-register"),
        ("register", ("txn", [["send", 1, 1], ["poll"]]), "use --checker kafka"),
        ("register", ("send", [["send", 1, 1]]), "use --checker kafka"),
        ("loss", ("write", 1), "use --checker register"),
        ("set", ("cas", [1, 2]), "use --checker register"),
        ("kafka", ("add", 1), "use --checker loss or set"),
        ("kafka", ("write", 1), "use --checker register"),
        ("loss", ("enqueue", 1), "use --checker queue"),
    ],
)
def test_what_another_checker_judges_is_said(
    checker: str, op: tuple[str, Any], what: str, tmp_path: Path
) -> None:
    text = lines(*({"process": 0, "type": t, "f": op[0], "value": op[1]} for t in ("invoke", "ok")))
    assert what in said(tmp_path, text, checker)
    if op[0] != "enqueue":
        reads = lines(*read(1)) if checker in ("loss", "set") else b""
        assert what in said(tmp_path, reads + text, checker)


def test_operations_that_no_checker_judges_are_named(tmp_path: Path) -> None:
    facts, _, _ = converted(tmp_path, *add(1), {**BEGIN, "f": "sleep"}, *read(1))
    assert facts.gaps.aside == ("1 operations 'sleep' are not judged",)
    assert not facts.gaps


@pytest.mark.parametrize(
    ("checker", "first", "second"),
    [
        ("register", ("write", 4), ("read", 5)),
        ("register", ("write", 4), ("cas", [4, 5])),
        ("register", ("cas", [1, 2]), ("cas", [1, 3])),
        ("register", ("write", ["a", 4]), ("write", ["b", 4])),
        ("register", ("write", ["a", 4]), ("write", ["a", 5])),
        ("register", ("cas", ["a", [4, 5]]), ("cas", ["a", [4, 6]])),
        ("register", ("read", ["a", None]), ("read", ["b", 4])),
        ("set", ("add", 4), ("add", 5)),
        ("set", ("add", ["a", 4]), ("add", ["b", 4])),
        ("kafka", ("send", [["send", 1, 2]]), ("send", [["send", 1, [0, 3]]])),
        ("kafka", ("txn", [["send", 1, 2]]), ("txn", [["send", 2, [0, 2]]])),
        ("kafka", ("txn", [["send", 1, 2]]), ("poll", [["poll", {}]])),
    ],
)
def test_a_completion_that_contradicts_its_invocation_is_bad_input(
    checker: str, first: tuple[str, Any], second: tuple[str, Any], tmp_path: Path
) -> None:
    ops = [
        {"process": 0, "type": kind, "f": f, "value": value}
        for kind, (f, value) in (("invoke", first), ("ok", second))
    ]
    assert re.match(r":2: .* line 1 invoked", said(tmp_path, lines(*ops), checker))


def test_the_keys_1_and_text_1_are_two(tmp_path: Path) -> None:
    def keyed(key: Any, *ops: dict[str, Any]) -> list[dict[str, Any]]:
        return [{**op, "key": key} for op in ops]

    write = [{**op, "f": "write"} for op in add(4)]
    read_4 = [BEGIN, {**BEGIN, "type": "ok", "value": 4}]
    for key in (1, [1], True, 1.5):
        ops = [*keyed(key, *write), *keyed(json.dumps(key), *read_4)]
        assert said(tmp_path, lines(*ops)) == "invalid", "of another register"
        assert said(tmp_path, lines(*ops[:2], *keyed(key, *read_4))) == "valid"
        ops = [*keyed(key, *add(1), *read(1)), *keyed(json.dumps(key), *add(1), *read(1))]
        for checker in ("loss", "set"):
            assert said(tmp_path, lines(*ops), checker) == "valid", "added once under each key"
    send = {"process": 0, "type": "ok", "f": "send", "value": [["send", 1, [0, 2]]]}
    polls = '{"process": 1, "type": "ok", "f": "poll", "value": [["poll", {"1": [[0, 2]]}]]}\n'
    assert said(tmp_path, polls + lines(send).decode(), "kafka") == "valid"
    text = lines(send).decode().replace('["send",1', '["send","1"')
    assert said(tmp_path, polls + text, "kafka") == "valid"
    assert "the same in an object of JSON" in said(
        tmp_path, polls + lines(send).decode() + text, "kafka"
    )
    edn = """{:process 0 :type :ok :f :send :value [[:send 1 [0 2]]]}
    {:process 0 :type :ok :f :send :value [[:send "1" [0 3]]]}
    {:process 1 :type :ok :f :poll :value [[:poll {1 [[0 2]] "1" [[0 3]]}]]}"""
    assert said(tmp_path, edn, "kafka") == "valid"


@pytest.mark.parametrize("checker", ["loss", "set"])
@pytest.mark.parametrize("independent", [True, False])
def test_sets_and_logs_with_keys_are_judged_by_key(
    independent: bool, checker: str, tmp_path: Path
) -> None:
    """In the field, or as Jepsen's independent tests have it; the same value may be in several."""

    def under(key: Any, *ops: dict[str, Any]) -> list[dict[str, Any]]:
        if not independent:
            return [{**op, "key": key} for op in ops]
        return [{**op, "value": [key, op["value"]]} for op in ops]

    adds = [*under("a", *add(1), *add(2)), *under("b", *add(1))]
    for a, b, verdict in (
        ([1, 2], [1], "valid"),
        ([1], [1], "invalid"),
        ([1, 2], [], "invalid"),
        ([1, 2], [2], "invalid"),
        ([2, 1], None, "unknown"),
    ):
        reads = [*under("a", *read(*a)), *(under("b", *read(*b)) if b is not None else ())]
        assert said(tmp_path, lines(*adds, *reads), checker) == verdict
    early = [*under("a", *add(1), *read(1)), *under("b", *add(1), *read(1))]
    assert said(tmp_path, lines(*early), checker) == "valid", "each read ends its own key"
    late = under("a", *add(2))
    assert said(tmp_path, lines(*early, *late), checker) == "unknown"
    lossy = [*under("a", *add(1), *read(1)), *under("b", *add(1), *read())]
    assert said(tmp_path, lines(*lossy, *late), checker) == "invalid", "b was read to its end"
    if checker == "loss":
        assert "adds have keys, and a read has none" in said(
            tmp_path, lines(*adds, *read(1)), checker
        )
