"""The line protocol of clients that are processes of the user's, as docs/how-to/any-client.md has
it."""

from __future__ import annotations

from contextlib import suppress

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.models import MODELS
from harness.protocols import completion, invoke
from harness.run.client_process import (
    Failed,
    Lie,
    NotInFlight,
    Ready,
    answer_of,
    invoke_line,
    ready_of,
    setup_line,
)

WRITES, READS = {7: "append"}, {7: "read"}


def line(**fields: object) -> bytes:
    return orjson.dumps(fields)


def test_lines_to_a_client() -> None:
    setup = setup_line(
        run_id="r",
        system="s",
        version="1.2",
        model="log",
        client=2,
        clients=3,
        start=1,
        answer_within_s=16.0,
        connection={"a": ["b"]},
    )
    assert setup.endswith(b"\n")
    assert orjson.loads(setup) == {
        "type": "setup",
        "protocol": 1,
        "run_id": "r",
        "system": "s",
        "version": "1.2",
        "model": "log",
        "client": 2,
        "clients": 3,
        "start": 1,
        "answer_within_s": 16.0,
        "connection": {"a": ["b"]},
    }
    assert invoke_line(1, invoke("append", 17, 0)) == (
        b'{"type":"invoke","id":1,"f":"append","value":17,"partition":0}\n'
    )
    assert invoke_line(2, invoke("cas", 5, key="k", expected=4)) == (
        b'{"type":"invoke","id":2,"f":"cas","value":5,"key":"k","expected":4}\n'
    )
    assert invoke_line(3, invoke("read", key="k")) == (
        b'{"type":"invoke","id":3,"f":"read","key":"k"}\n'
    )


def test_the_first_line_of_a_client() -> None:
    ready = ready_of(line(type="ready", name="lib", version="1.0"))
    assert ready == Ready("lib", "1.0")
    assert str(ready) == "lib 1.0"
    with pytest.raises(Failed, match="no server"):
        ready_of(line(type="failed", error="no server"))


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "ok", "id": 1},
        {"type": "ready"},
        {"type": "ready", "name": "x"},
        {"type": "ready", "name": "", "version": "1"},
        {"type": "ready", "name": "x", "version": 1},
        {"type": "ready", "name": "x" * 201, "version": "1"},
        {"type": "ready", "name": "x", "version": "1", "settings": {}},
        {},
    ],
)
def test_other_first_lines_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(Lie):
        ready_of(line(**fields))


@pytest.mark.parametrize(
    ("fields", "ended"),
    [
        ({"type": "ok"}, completion("ok")),
        ({"type": "ok", "position": 9}, completion("ok", 9)),
        ({"type": "ok", "position": None}, completion("ok")),
        ({"type": "ok", "node": "n1"}, completion("ok", node="n1")),
        ({"type": "fail", "error": "E"}, completion("fail", error="E")),
        ({"type": "info", "error": "E"}, completion("info", error="E")),
        ({"type": "info"}, completion("info")),
    ],
)
def test_completions_of_writes(fields: dict[str, object], ended: object) -> None:
    assert answer_of(line(id=7, **fields), WRITES, "log") == (7, ended)


FITTING = {
    ("register", "read"): (None, 5, -5),
    ("set", "read"): ([], [7], [1, 2]),
    ("watch", "watch"): ([5, 1], [5, 0]),
    ("lock", "confirm"): (0, 1),
    ("queue", "dequeue"): (None, 5),
    ("queue", "drain"): ([], [7], [1, 2]),
    ("transaction", "poll"): (None, [], [1, 2, 3, 4], [*range(8)]),
}
OTHERS = {
    "register": ([], [7], [7, 8]),
    "set": (None, 5),
    "watch": (None, 5, [], [5], [5, 2], [5, 1, 1]),
    "lock": (None, 2, -1, [], [1]),
    "queue": (),
    "transaction": (0, 4, [1], [1, 2, 3, 4, 5]),
}
OF_NO_MODEL = ("5", 1.5, True, [1, "2"], [None], [True], [[1]], {"a": 1}, -(2**63), [2**63])


@pytest.mark.parametrize(
    ("model", "f", "result"), [(*read, each) for read, fit in FITTING.items() for each in fit]
)
def test_completions_of_reads(model: str, f: str, result: object) -> None:
    answer = answer_of(line(type="ok", id=7, result=result), {7: f}, model)
    read = tuple(result) if isinstance(result, list) else result
    assert answer == (7, completion("ok", result=read))  # type: ignore[arg-type]


@pytest.mark.parametrize(("model", "f"), FITTING)
def test_results_of_another_shape_than_the_models(model: str, f: str) -> None:
    """Read as data, null would be an empty set, and a list a register without a value."""
    for result in (*OTHERS[model], *OF_NO_MODEL):
        with pytest.raises(Lie, match=r"'result' is .*, not "):
            answer_of(line(type="ok", id=7, result=result), {7: f}, model)


def test_each_model_with_reads_has_a_shape() -> None:
    reads = {name for name, model in MODELS.items() if model.functions - model.writes}
    assert reads == {model for model, _ in FITTING}


def test_a_read_without_a_result_is_refused() -> None:
    with pytest.raises(Lie, match="needs a 'result'"):
        answer_of(line(type="ok", id=7), READS, "set")


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"java.lang.NullPointerException", "not JSON: 'java.lang.NullPointerException'"),
        (b"\xff\xfe", "not JSON"),
        (b"[1]", "not a JSON object"),
        (line(type="done", id=7), "'type' is 'done'"),
        (line(type=["ok"], id=7), "'type' is ['ok']"),
        (line(type="ok", id="7"), "'id' is '7', not an integer"),
        (line(type="ok", id=7, position="7"), "'position' is '7'"),
        (line(type="ok", id=7, postion=7), "no field 'postion'"),
        (line(type="ok", id=7, result=7), "has no 'result'"),
        (line(type="info", id=7, error=["no"]), "'error' is ['no']"),
    ],
)
def test_a_line_that_is_no_answer_is_a_lie(raw: bytes, words: str) -> None:
    with pytest.raises(Lie) as lie:
        answer_of(raw, WRITES, "log")
    assert words in str(lie.value)


def test_an_answer_to_what_is_not_in_flight() -> None:
    with pytest.raises(NotInFlight) as lie:
        answer_of(line(type="ok", id=8), WRITES, "log")
    assert lie.value.number == 8


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "id", "position", "result", "error", "node", "name"])
                | st.text(),
                inner | st.sampled_from(["ok", "fail", "info", "ready", "failed", 7]),
                max_size=5,
            )
        ),
    ).map(orjson.dumps)
)
def test_any_line_is_an_answer_or_a_lie(raw: bytes) -> None:
    for ops, model in ((WRITES, "log"), (READS, "register")):
        with suppress(Lie):
            assert answer_of(raw, ops, model)[0] == 7
    with suppress(Lie, Failed):
        assert ready_of(raw).name
