"""Each anomaly where there is one, and none where there is none. Transactions and what they rule
out are those of public tests of Elle and elle-cli (jepsen-io/elle, ligurio/elle-cli)."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkers.elle.dependencies import MODELS, ruled_out, weakest
from checkers.judging.one_run import checker_of, judge_history
from harness.errors import HistoryError
from tests.checkers.elle.txns import Txn, found_in, in_turn, kinds, not_, steps_of, together

CURSOR = {"cursor-stability", "parallel-snapshot-isolation"}
SINGLE = {"consistent-view", "repeatable-read"}

LISTS = [
    (["ax1ay1", "ax2ay2", "rx12ry21"], {"G0"}, {"read-uncommitted"}),
    (["fail ax1", "rx1"], {"G1a"}, {"read-committed"}),
    (["ax1ax2", "rx1"], {"G1b", "G-single"}, {"read-committed"}),
    (["ax1ry1", "ax2ay1", "rx12ry1"], {"G1c"}, {"read-committed"}),
    (["ax1ay1", "ax2ry_", "rx12"], {"G-single"}, SINGLE),
    (["ax1ry_", "ay1rx_"], {"G2-item"}, {"repeatable-read"}),
    (["rx_ay1", "ry_ax1"], {"G2-item"}, {"repeatable-read"}),
    (
        ["ax1", "rx1ry_", "ay1", "ry1rx_"],
        {"G-nonadjacent"},
        {"snapshot-isolation", "repeatable-read"},
    ),
    (["rx1ry_", "ay1rz_", "az1ax1"], {"G2-item"}, {"repeatable-read"}),
    (["ax0", "rx0ax1", "rx0ax2"], {"lost-update", "G2-item"}, CURSOR),
    (
        ["ax1ry1", "ax2", "ax3ay1", "rx13", "rx123"],
        {"G1c", "incompatible-order"},
        {"read-committed"},
    ),
    (["fail ax1", "ax2", "rx12"], {"dirty-update", "G1a"}, {"read-committed"}),
    (["fail ax1", "info ax2", "ax3", "rx123"], {"dirty-update", "G1a"}, {"read-committed"}),
    (["ax1ry1", "ax2ay1", "rx121"], {"duplicate-elements"}, {"read-uncommitted"}),
    (["ax1ax2ax4", "ax3rx1234"], {"internal", "G0"}, {"read-uncommitted"}),
    (["ax1ay1", "ax2ay2", "ax3ay3", "rx12", "ry2"], {"G0", "G-single"}, {"read-uncommitted"}),
    (["ax0", "ax2", "rx012ax1"], {"future-read"}, {"read-committed"}),
    (["ax1rx01ax0ax3"], {"future-read"}, {"read-committed"}),
    (["ax1", "ax2rx1"], {"internal"}, {"read-atomic"}),
    (["ax1", "ax2", "rx1ax3rx1"], {"internal"}, {"read-atomic"}),
    (["ax1", "ax2", "rx12ax3rx1234", "ax4"], {"internal"}, None),
    (["rx7"], {"unexpected"}, {"read-committed"}),
    (["ax1ax2", "rx21"], {"internal", "G1b"}, {"read-committed"}),
]
"""Transactions that run all at once, the anomalies that are found, and the weakest models that are
ruled out."""

LISTS_VALID = [
    ["ax1", "rx1"],
    ["fail ax1"],
    ["rx_", "ax1", "rx1", "ax2", "rx12"],
    ["rx_", "ax1", "ax2"],
    ["ax1rx1ax2", "rx12"],
    ["rx_ax1ax2", "rx12"],
    ["info ax2ry_", "ax1ay1", "rx12ry1"],
    ["az1ax1ay1", "rx1ay2", "ry12az3", "rz13"],
    ["ry56", "ay5ay6", "ax1ax2", "rx12ax3rx123ax4rx1234"],
    ["ax1", "rx1rx1"],
    ["rx5ay1", "ry_az2", "rz_at3", "rt3au4", "ru_ax5"],
]

REGISTERS = [
    (["rX2", "fail wx2"], {"G1a"}, {"read-committed"}),
    (["rX2", "wx2wx1"], {"G1b"}, {"read-committed"}),
    (["wx1rY1", "wy1rX1"], {"G1c"}, {"read-committed"}),
    (["wx1", "wx2", "rX1rX2"], {"internal"}, {"read-atomic"}),
    (["wx1", "rX1wx2rX1"], {"internal"}, {"read-atomic"}),
    (["rX_rY1", "wy1wx2"], {"G-single"}, SINGLE),
    (["wy1", "rY1wx1wy2", "rX1rY1"], {"G-single"}, SINGLE),
    (["wx0", "rX0wx1", "rX0wx2"], {"lost-update", "G2-item"}, CURSOR),
    (["rX_wy1", "rY_wx1"], {"G2-item"}, {"repeatable-read"}),
    (["rX0wy1", "rY1wx0"], {"G1c"}, {"read-committed"}),
    (["rX3"], {"unexpected"}, {"read-committed"}),
]

REGISTERS_VALID = [
    ["wx1", "rX1"],
    ["wx1wx2", "rX2"],
    ["wx1wy2", "wx2wy1"],
    ["wy2", "rY2wx2rX2wx1rX1"],
    ["wx0wy0", "rX0rY0wx1"],
    ["info wx1", "rX_", "rX1"],
    ["info wx1", "rX_", "rX_"],
]


@pytest.mark.parametrize(("texts", "expected", "out"), LISTS)
def test_anomalies_of_lists(texts: list[str], expected: set[str], out: set[str] | None) -> None:
    found = kinds(together(*texts))
    assert found >= (expected)
    assert out is None or set(weakest(ruled_out(found))) == out


@pytest.mark.parametrize(("texts", "expected", "out"), REGISTERS)
def test_anomalies_of_registers(texts: list[str], expected: set[str], out: set[str]) -> None:
    assert kinds(together(*texts), lists=False) >= expected
    assert not_(together(*texts), lists=False) == out


@pytest.mark.parametrize(
    ("texts", "lists"),
    [*((texts, True) for texts in LISTS_VALID), *((texts, False) for texts in REGISTERS_VALID)],
)
def test_transactions_without_an_anomaly(texts: list[str], lists: bool) -> None:
    assert kinds(together(*texts), lists=lists) == set()


def test_what_only_real_time_or_a_process_forbids() -> None:
    texts = ("ax1", "ax2", "rx1", "rx12")
    assert kinds(together(*texts)) == set()
    assert kinds(in_turn(*texts)) == {"G-single-realtime"}
    assert not_(in_turn(*texts)) == {"strong-snapshot-isolation"}
    found, cycles = found_in(in_turn(*texts, process=7))
    assert found == {"G-single-process": 1}
    assert weakest(ruled_out(found)) == ["strong-session-snapshot-isolation"]
    (cycle,) = cycles.shown
    assert (cycle.exact, len(cycle.steps)) == (True, 2)


def test_processes_with_reads_that_follow_each_other_or_not() -> None:
    """jepsen-io/elle issues 17 and 21."""
    texts, processes = ("rx_rz1", "ax1", "rz_", "az1"), (0, 1, 1, 2)
    spans = [(0, 50), (1, 2), (3, 4), (5, 60)]  # the order of processes alone
    txns = [
        Txn(steps_of(text), *span, process=process)
        for text, span, process in zip(texts, spans, processes, strict=True)
    ]
    assert kinds(txns) == {"G-nonadjacent-process"}
    txns = [
        Txn(steps_of("rx1ay1"), 0, 50, 1),
        Txn(steps_of("ry1"), 1, 2, 2),
        Txn(steps_of("ax1"), 3, 4, 2),
    ]
    assert kinds(txns) == {"G1c-process"}
    assert not_(txns) == {"strong-session-read-committed"}


def test_an_append_that_no_later_read_shows_is_lost() -> None:
    """What was acknowledged and is gone: no order of it and the read that misses it."""
    assert kinds(in_turn("ax1", "ax2", "rx1")) == {"G-single-realtime"}
    assert kinds(in_turn("ax1", "info ax2", "rx1")) == set()
    assert kinds(in_turn("ax1", "fail ax2", "rx1")) == set()
    assert kinds(in_turn("wx1", "rX_"), lists=False) == {"G-single-realtime"}


def test_every_anomaly_rules_something_out_and_the_strongest_model_is_always_among_it() -> None:
    for kind in ("G0", "G1a", "internal", "lost-update", "G-single", "G2-item", "G2-item-realtime"):
        assert "strict-serializable" in ruled_out([kind])
    assert ruled_out(["G0"]) == set(MODELS)
    assert "snapshot-isolation" not in ruled_out(["G2-item"])
    assert "repeatable-read" not in ruled_out(["G-single-process"])


def test_a_value_that_is_written_twice_is_bad_input() -> None:
    with pytest.raises(HistoryError, match="written to one key twice"):
        kinds(together("ax1", "ax1"))


PAPER = """
{:process 1 :type :ok :value [[:append 253 1] [:append 253 3] [:append 253 4] [:append 255 2]
 [:append 255 3] [:append 255 4] [:append 255 5] [:append 256 1] [:append 256 2]]}
{:process 1 :type :ok, :value [[:append 255 8] [:r 253 [1 3 4]]]}
{:process 1 :type :ok, :value [[:append 256 4] [:r 255 [2 3 4 5 8]] [:r 256 [1 2 4]]
 [:r 253 [1 3 4]]]}
{:process 1 :type :ok :value [[:append 250 10] [:r 253 [1 3 4]] [:r 255 [2 3 4 5]]
 [:append 256 3]]}
"""
"""The example of Elle's paper, as elle-cli keeps it; without its invocations."""


def test_a_history_of_elle_is_read_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "paper.edn"
    file.write_text(PAPER.replace("\n ", " "))
    result = judge_history(file, {"list-append": checker_of("list-append", {})})
    assert (result["verdict"], result["counter_examples"]) == ("invalid", ["G-single"])
    assert result["reason"] == (
        "cycles with one read of a version that the next transaction overwrote (G-single): 1"
    )
    details = result["checks"][0]["details"]
    assert details["not"] == ["repeatable-read", "consistent-view"]
    weaker = {"list-append": checker_of("list-append", {"consistency": "read-committed"})}
    result = judge_history(file, weaker)
    assert (result["verdict"], result["counts"]["G-single"]) == ("valid", 1)
    assert result["checks"][0]["details"]["tolerated"] == ["G-single"]


@pytest.mark.parametrize("read", ["[:r 1]", "[:r 1 nil]"])
def test_a_read_without_a_value_is_of_an_empty_list(read: str, tmp_path: Path) -> None:
    file = tmp_path / "empty.edn"
    ops = ["[[:append 1 1]]"] * 2 + [f"[{read}]"] * 2
    lines = [
        f"{{:process 0, :type {kind}, :f :txn, :value {value}, :time {n}}}\n"
        for n, (kind, value) in enumerate(zip([":invoke", ":ok"] * 2, ops, strict=True))
    ]
    file.write_text("".join(lines))
    result = judge_history(file, {"list-append": checker_of("list-append", {})})
    assert result["counter_examples"] == ["G-single-process"]
    (shown,) = result["checks"][0]["details"]["examples"]
    assert shown["stuck"] == shown["steps"][-1]["from"] == 1


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ("[[:w 1 2]]", "is not"),
        ("[[:append 1]]", "is not"),
        ("[[:r 1 5]]", "is not"),
        ("[3]", "is not"),
    ],
)
def test_what_is_no_step_of_a_list_is_bad_input(value: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.edn"
    file.write_text(f"{{:process 0, :type :ok, :f :txn, :value {value}}}\n")
    with pytest.raises(HistoryError, match=what):
        judge_history(file, {"list-append": checker_of("list-append", {})})
