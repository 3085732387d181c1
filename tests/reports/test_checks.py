"""The counts of checks in words, for pages and for the command line."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.documents import RunResult, result_of
from reports.checks import counted, counts_losses, headline, in_short, views

REGISTER = {
    "attempted": 10, "acknowledged": 8, "failed": 1, "unknown": 1, "keys": 5, "reads": 9,
    "invalid_keys": 2, "undecided_keys": 0, "stale_reads": 4, "stale_s_max": 0.25,
    "stale_s_p50": None,
}  # fmt: skip
SET = {"attempted": 9, "acknowledged": 7, "stable": 6, "lost": 1, "stale": 2, "never_read": 0}


def result(
    model: str, name: str, counts: dict[str, Any], *, verdict: str = "valid", **check: Any
) -> RunResult:
    """A result with one check, as a check writes it."""
    return result_of(
        {
            "verdict": verdict, "reason": "5 keys are linearizable, under 3 proven faults",
            "model": model, "counts": counts,
            "checks": [{"name": name, "verdict": verdict, "counts": counts, **check}],
        }
    )  # fmt: skip


def values(result: RunResult) -> dict[str, str]:
    return {count.label: count.value for count in counted(result.checks[0])}


def test_counts_of_registers_have_words_and_units() -> None:
    reported = values(result("register", "register", REGISTER))
    assert reported["registers"] == "5"
    assert reported["with a counter-example"] == "2"
    assert reported["age of a stale read, at most"] == "0.25 s"
    assert reported["age of a stale read, median"] == "—"
    assert set(reported.values()) >= {"10", "8", "9", "4"}


def test_every_count_is_shown_and_the_most_telling_ones_in_short() -> None:
    check = result("set", "set", SET).checks[0]
    assert {count.name for count in counted(check)} == set(SET)
    assert [count.name for count in in_short(check)] == ["stable", "lost", "stale", "never_read"]


@pytest.mark.parametrize(
    ("name", "counts", "found", "bad"),
    [
        ("register", REGISTER, "not_linearizable", {"invalid_keys"}),
        ("set", SET, "lost", {"lost"}),
        ("set", SET, "stale", {"stale"}),
    ],
)
def test_what_makes_a_run_invalid_is_marked_and_nothing_else(
    name: str, counts: dict[str, Any], found: str, bad: set[str]
) -> None:
    check = result(name, name, counts, counter_examples=[[found, "x"]]).checks[0]
    assert {count.name for count in counted(check) if count.bad} == bad
    assert not any(count.bad for count in counted(result(name, name, counts).checks[0]))


def test_a_check_of_a_plug_in_is_shown_by_the_names_of_its_counts() -> None:
    one = result("log", "sorted", {"acknowledged": 3, "lost": 0, "out_of_order": 2})
    assert not counts_losses(one)
    (view,) = views(one)
    assert view.title == "Check: sorted"
    assert [(count.label, count.value) for count in view.short] == [
        ("acknowledged", "3"), ("lost", "0"), ("out of order", "2"),
    ]  # fmt: skip


def test_the_loss_check_has_a_section_already() -> None:
    one = result("log", "loss", {"attempted": 1, "acknowledged": 1, "lost": 0})
    assert counts_losses(one)
    assert views(one) == []


def test_counts_of_registers_are_no_counts_of_losses() -> None:
    assert not counts_losses(result("register", "register", REGISTER))


LOST = "known elements that were lost: 1 of 7 (14.3 %)"


@pytest.mark.parametrize(
    ("verdict", "model", "found", "words"),
    [
        ("valid", "register", [], "5 keys are linearizable"),
        ("invalid", "register", [["not_linearizable", "2 of 5 keys are not linearizable: 'k0'"]],
         "2 of 5 keys (40.0 %) are not linearizable: 'k0'"),
        ("invalid", "set", [["lost", LOST]],
         "Known elements that were lost: 1 of 7 (14.3 %)"),
        ("invalid", "set", [["lost", LOST], ["x", "a"], ["y", "b"]],
         "Known elements that were lost: 1 of 7 (14.3 %); and 2 other kinds of findings"),
        ("unknown", "register", [],
         "It is not known whether there were inconsistent registers: 5 keys"),
        ("unknown", "set", [["lost", "x"]], "It is not known whether there were lost elements"),
    ],
)  # fmt: skip
def test_headlines(verdict: str, model: str, found: list[list[str]], words: str) -> None:
    counts = REGISTER if model == "register" else SET
    one = result(model, model, counts, verdict=verdict, counter_examples=found)
    assert headline(one).startswith(words)
    assert verdict == "unknown" or "under" not in headline(one)


def test_latencies_of_a_set() -> None:
    points = {"0": 0.0, "0.5": 1.5, "0.95": 20.0, "0.99": 20.0, "1": 2_500.0}
    details = {"latencies_ms": {"stable": points, "lost": {}}, "final_read": {"is_final": True}}
    (view,) = views(result("set", "set", SET, details=details))
    assert view.latencies == [("stable", ["0 ms", "1.5 ms", "20 ms", "20 ms", "2.5 s"])]
    assert view.final
    assert not views(result("set", "set", SET, details={"final_read": None}))[0].final


def test_latencies_without_a_read_before_the_end_are_not_shown() -> None:
    none = dict.fromkeys(("0", "0.5", "0.95", "0.99", "1"), 0.0)
    details = {"latencies_ms": {"stable": none, "lost": none}, "final_read": {"is_final": True}}
    (view,) = views(result("set", "set", SET, details=details))
    assert view.latencies == []


@pytest.mark.parametrize(
    ("verdict", "lost", "rates"),
    [("valid", "0", 2), ("invalid", "0", 2), ("unknown", "unknown", 1)],
)
@pytest.mark.parametrize("model", ["set", "queue"])
def test_what_an_unknown_run_lost_is_never_0(
    verdict: str, lost: str, rates: int, model: str
) -> None:
    counts = {"attempted": 9, "acknowledged": 9, "lost": 0, "unexpected": 0}
    one = result(model, model, counts, verdict=verdict, rates={"ack": 1.0, "loss": 0.0})
    (view,) = views(one)
    for each in (view.counts, view.short, in_short(one.checks[0], known=verdict != "unknown")):
        shown = {count.name: count.value for count in each}
        assert (shown["lost"], shown["unexpected"]) == (lost, "0")
    assert len(view.rates) == rates


def test_what_each_fault_cost_is_a_table() -> None:
    faults = [
        {"fault": "stop", "nodes": ["b1"], "met": 334, "led_s": 1.5, "changed_s": None},
        {"fault": "crash", "nodes": ["b2"], "met": 667, "led_s": 4.25, "changed_s": None},
    ]
    counts = {"attempted": 9, "acknowledged": 9, "led_s": 4.25}
    (view,) = views(result("register", "failover", counts, details={"failover": faults}))
    assert view.title == "Failover"
    (table,) = view.faults
    assert list(table.columns) == ["fault", "met", "led s"]
    assert table.rows == [["stop", "334", "1.50 s"], ["crash", "667", "4.25 s"]]
    (view,) = views(result("register", "register", counts))
    assert view.faults == []
