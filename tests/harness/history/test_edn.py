"""EDN: what is read here and what by the library `edn_format` say the same; what is cut off is
named."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any

import edn_format
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import HistoryError
from harness.history.outside import operations, records
from tests.fixtures.budget import budget

pytestmark = pytest.mark.slow

OP = (
    "{:index 0, :time 7, :type :ok, :process 3, :f :txn, "
    ":value [[:send 1 [5 17]] [:poll {2 [[3 4]]}]]}"
)
READ = {
    "index": 0,
    "time": 7,
    "type": "ok",
    "process": 3,
    "f": "txn",
    "value": [["send", 1, [5, 17]], ["poll", {2: [[3, 4]]}]],
}

names = st.from_regex(r"[a-z][a-z0-9?-]{0,6}", fullmatch=True)
texts = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=8)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), texts, names.map(edn_format.Keyword)
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.one_of(names.map(edn_format.Keyword), st.integers(0, 9)), inner, max_size=3
        ),
        st.sets(st.integers(0, 99), max_size=4),
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=budget(60, 200))
@given(value=values)
def test_the_library_reads_the_same(value: Any) -> None:
    text = edn_format.dumps([value])  # a vector around all is no value
    (ours,) = values_of(text)
    assert unordered(ours) == unordered(as_json(edn_format.loads(text))[0])


def values_of(text: str) -> list[Any]:
    """The values of a text, which may stand in a vector."""
    return [value for _, value in records(text.splitlines(keepends=True), "history.edn")]


def as_json(value: Any) -> Any:
    """What the library returns, as JSON would have it."""
    if isinstance(value, edn_format.Keyword | edn_format.Symbol):
        return value.name
    if isinstance(value, Mapping):
        return {as_json(key): as_json(each) for key, each in value.items()}
    if isinstance(value, Sequence | AbstractSet) and not isinstance(value, str):
        return [as_json(each) for each in value]
    return value


def unordered(value: Any) -> Any:
    """Sets have no order; here they are lists, as all else."""
    if isinstance(value, dict):
        return {key: unordered(each) for key, each in value.items()}
    if isinstance(value, list):
        return sorted(map(unordered, value), key=repr)
    return value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (OP, READ),
        (f"#jepsen.history.Op{OP}", READ),
        (f"#jepsen.history.Op {OP}", READ),
        ("{:process :nemesis, :value #{1}}", {"process": "nemesis", "value": [1]}),
        (
            '{:error #object[java.lang.Object 0x1f "x"]}',
            {"error": ["java.lang.Object", "0x1f", "x"]},
        ),
        ('{:a/b -1.5e3, "k" nil}', {"a/b": -1500.0, "k": None}),
        (r'{1 "a\"b\\c\n"}', {1: 'a"b\\c\n'}),
        ("#{(1 [2 #{3}])}", [[1, [2, [3]]]]),
        ("{:a 5N :b \\c} ; a comment", {"a": 5, "b": "c"}),
        ('{1 [1 #_ 2 3 #_#_ {:a 4} #inst "x" #_ 5]}', {1: [1, 3]}),
        ("; first\n\n#_ {:a 1}\n{:a 2}", {"a": 2}),
        (
            '{:a #_\n{:b ; why\n2} 3/4 "k\\u0041\n;" [\\newline \\; \\u0042 1.5M 2. ##-Inf]}',
            {"a": 0.75, "kA\n;": ["\n", ";", "B", 1.5, 2.0, float("-inf")]},
        ),
        ('{1 :int "1" :text [1] nil}', {1: "int", "1": "text", "[1]": None}),
        ("#:op{:f :read}", {"f": "read"}),
    ],
)
def test_values(text: str, value: Any) -> None:
    assert values_of(text) == [value]
    assert values_of(f"; in a vector\n[{text}\n]\n; end") == [value]


def read(folder: Path, text: str) -> list[tuple[int, Any]]:
    return list(records(text.splitlines(keepends=True), f"{folder}/history.edn"))


def test_operations_stand_one_a_line_in_a_vector_or_over_lines(tmp_path: Path) -> None:
    one, two = "{:index 0}", "{:index 1}"
    both = [{"index": 0}, {"index": 1}]
    for text, lines in (
        (f"{one}\n\n{two}\n", [1, 3]),
        (f"{one}\n{two}", [1, 2]),
        (f"[{one}\n {two}]\n", [1, 2]),
        (f"[{one} {two}]", [1, 1]),
        ("{:index\n0}\n{:index 1}", [1, 3]),
        (f"[\n{one}\n{two}\n]\n", [2, 3]),
    ):
        assert read(tmp_path, text) == [*zip(lines, both, strict=True)]


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("{:index 0}\n{:index 1, :type :in", 2, "type"),
        ("{:index 0}\n{:index 1, :value [[:send {:a", 2, "value"),
        ("{:index 0}\n{:index 1, :value 3, :ty", 2, "ty"),
        ("{:index 0}\n{:index 1, :value 3", 2, "value"),
        ('{:index 0, :value "a', 1, "value"),
        ("{", 1, "type"),
        ("[{:index 0}\n", 1, "type"),
    ],
)
def test_what_is_cut_off_is_one_sentence_with_its_place(
    text: str, line: int, key: str, tmp_path: Path
) -> None:
    with pytest.raises(HistoryError, match="is cut off") as caught:
        read(tmp_path, text)
    error = caught.value
    assert (error.file, error.key) == (f"{tmp_path}/history.edn:{line}", key)
    assert (error.exit_code, "\n" in str(error)) == (4, False)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("{:a}\n", "a key without a value"),
        ("{:a 1]\n", "closed by"),
        ("{:a 1}}\n", "closes that none opens"),
        ("{:a 1}]\n", "closes that none opens"),
        ("[{:a 1}]]\n", "closes that none opens"),
        ("{:a \\nowhere}\n", "is not a character"),
        ('{:a "\\q"}\n', "is not a character"),
        ("{:a 0123}\n", "cannot be a value"),
        ("{:a 1 :b @}\n", "is not EDN"),
    ],
)
def test_what_is_not_edn_is_refused(text: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match=what) as caught:
        read(tmp_path, text)
    assert caught.value.file == f"{tmp_path}/history.edn:1"


def test_what_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    file.write_bytes(b"{:a \xff}\n")
    with pytest.raises(HistoryError, match="UTF-8"):
        list(operations(file))


def test_operations_are_checked_as_those_of_json(tmp_path: Path) -> None:
    file = tmp_path / "history.edn"
    file.write_text(OP)
    assert list(operations(file)) == [(1, READ)]
    for text, what in (("[1]", "is not an EDN map"), ("{:type :done}", "'done' is not one of")):
        file.write_text(text)
        with pytest.raises(HistoryError, match=what):
            list(operations(file))
    file.write_text("\n")
    with pytest.raises(HistoryError, match="is empty"):
        list(operations(file))
