"""The page of all systems is what its tables say, and its sentences follow the numbers."""

from __future__ import annotations

from typing import Any

import pandas as pd

from tests.fixtures.scripts import script

systems = script("systems")


def row(settings: str, schedule: str, lossy: int, of: int, **keys: Any) -> dict[str, Any]:
    return {
        "name": f"settings={settings}, schedule={schedule}",
        "key.settings": settings,
        "key.schedule": schedule,
        "runs": of,
        "conclusive": of,
        "conclusive_lossy": lossy,
        "inconclusive": 0,
        "inconclusive_lossy": 0,
        "loss_rate.median": 0.8 if lossy else 0.0,
        "unacknowledged_success_rate.median": 0.001,
        "longest_gap_s.median": 4.321,
        "duplicates.median": None,
        **keys,
    }


CELLS = pd.DataFrame(
    [
        row("default", "isolate-leader", 9, 10),
        row("default", "lag-kill", 10, 10),
        row("default", "kill-all", 0, 10),
        row("worse", "isolate-leader", 1, 10),
        row("worse", "lag-kill", 1, 10),
        row("worse", "kill-all", 0, 10),
        row("safest", "isolate-leader", 0, 10),
        row("safest", "lag-kill", 1, 10),
        row("safest", "kill-all", 0, 10),
        row("broken", "isolate-leader", 0, 0, inconclusive=2, inconclusive_lossy=1),
        row("broken", "kill-all", 0, 10),
    ]
)


def test_sentences_say_what_was_lost_and_what_was_not() -> None:
    assert systems.sentences(CELLS) == (
        "With `default` acknowledged writes were lost in every run (10 each) under `lag-kill`, in "
        "some runs (10 each) under `isolate-leader`, and none under the other 1 that have "
        "conclusive runs. Of the other settings `safest` lost under the fewest schedules: "
        "acknowledged writes were lost in some runs (10 each) under `lag-kill`, and none under the "
        "other 2 that have conclusive runs."
    )


def test_a_loss_in_a_run_that_does_not_count_is_said_and_held_against_the_settings() -> None:
    cells = pd.DataFrame(
        [
            row("default", "lag-kill", 1, 1),
            row("unclean", "lag-kill", 0, 1),
            row("unclean", "kill-all", 0, 0, inconclusive=1, inconclusive_lossy=1),
            row("safest", "lag-kill", 0, 1),
        ]
    )
    assert systems.sentences(cells).endswith(
        "Of the other settings `safest` (1 conclusive run) lost nothing."
    )
    assert systems.sentences(cells[1:3]) == (
        "With `unclean` acknowledged writes were lost in runs that do not count (1 each) under "
        "`kill-all`, and none under the other 1 that have conclusive runs."
    )


def test_settings_that_met_fewer_schedules_are_not_compared() -> None:
    """`broken` lost nothing, because little of it is known."""
    assert "broken" not in systems.sentences(CELLS)
    two = CELLS[CELLS["key.settings"].isin(["default", "broken"])]
    assert systems.sentences(two).count(".") == 1


def test_settings_that_lost_nothing_are_compared_with_the_worst() -> None:
    known = CELLS[CELLS["key.settings"] != "broken"]
    safe = known.assign(order=known["key.settings"] != "safest").sort_values("order", kind="stable")
    safe.loc[safe["key.settings"] == "safest", "conclusive_lossy"] = 0
    assert systems.sentences(safe).startswith(
        "With `safest` nothing was lost in 30 conclusive runs under 3 schedules. Of the other "
        "settings `default` and `worse` lost under the most schedules: "
    )


def test_nothing_lost_at_all_is_said_in_one_word() -> None:
    kept = CELLS[CELLS["key.settings"] != "broken"].assign(conclusive_lossy=0)
    assert systems.sentences(kept).endswith(
        "Of the other settings `worse` (30 conclusive runs) and `safest` (30 conclusive runs) lost "
        "nothing."
    )


def test_the_picture_has_a_tile_for_each_cell() -> None:
    figure = systems.drawn({"redis": CELLS})
    texts = [each.get_text() for each in figure.axes[0].texts]
    assert texts == [
        *("9 of 10", "0 of 10", "10 of 10"),
        *("1 of 10", "0 of 10", "1 of 10"),
        *("0 of 10", "0 of 10", "1 of 10"),
        *("(1 of 2)", "0 of 10"),
    ]


def test_a_line_has_a_share_with_its_interval() -> None:
    page = systems.page({"redis": CELLS})
    assert (
        "| `default` | `isolate-leader` | **9 of 10: 90.0 % (55.5 % to 99.75 %)** | 80 % |" in page
    )
    assert "4.32 s | - |" in page
    assert any("of 1,998 acknowledged writes 872" in line for line in systems.published())


def test_a_single_run_is_a_row() -> None:
    keys = ("plan", "version", "verdict", "counter_examples", "acknowledged", "lost")
    rows = [("a/b", None, "invalid", "lost", 100, 7), ("a/c", "1.2", "unknown", None, 10, None)]
    runs = pd.DataFrame([dict(zip(keys, row, strict=True)) for row in rows])
    table = systems.runs_table(runs.assign(longest_gap_s=1.5, led_next=["n2", "no other"]))
    assert "| `a/b` | default | invalid | 7 of 100 | 1.5 s | n2 |" in table
    assert "| `a/c` | 1.2 | unknown | - | 1.5 s | no other |" in table


def test_the_page_is_that_of_the_published_tables() -> None:
    assert systems.PAGE.read_text(encoding="utf-8") == systems.written(), (
        "python -m scripts.systems --write"
    )


def ended(run_id: str, schedule: str, class_: str, *, counts: bool = True) -> dict[str, Any]:
    return {
        "run_id": run_id,
        "settings": "default",
        "schedule": schedule,
        "conclusive": counts,
        "class": class_,
        "loss_rate": 0.5 if class_ == "loss" else 0.0,
        "unacknowledged_success_rate": 0.0,
        "longest_gap_s": 1.0,
        "duplicates": 0,
    }


def test_cells_are_counted_over_the_runs_of_several_days_each_once() -> None:
    """A loss in a run that does not count is counted apart, and is in no median."""
    first = [ended("1", "lag-kill", "loss"), ended("2", "kill-all", "none")]
    later = [
        *(ended("2", "kill-all", "none"), ended("3", "kill-all", "loss", counts=False)),
        ended("4", "lag-kill", "loss"),
    ]
    runs = systems.together(pd.DataFrame(first), pd.DataFrame(later))
    assert runs["run_id"].tolist() == ["1", "4", "2", "3"], "cell by cell"
    cells = systems.cells_of(runs).set_index("key.schedule")
    names = ["runs", "conclusive", "conclusive_lossy", "inconclusive", "inconclusive_lossy"]
    assert cells.loc["lag-kill", names].tolist() == [2, 2, 2, 0, 0]
    assert cells.loc["kill-all", names].tolist() == [2, 1, 0, 1, 1]
    assert cells["loss_rate.median"].to_dict() == {"lag-kill": 0.5, "kill-all": 0.0}


def test_runs_of_a_cell_that_has_changed_since_are_not_added() -> None:
    """Once all runs were left out when a campaign file changed for some of its cells."""
    text = """
    plan = "a.toml"
    about = "{about}"
    axes.settings.choices = {{ default = {{}}, safe.set = {{ a = 1 }} }}
    axes.schedule.choices = {{ lag-kill.set = {{ b = 1 }}, kill-all.set = {{ b = {b} }} }}
    """
    before, now = (text.format(about=b, b=b).encode() for b in (1, 2))
    runs = pd.DataFrame([ended("1", "lag-kill", "loss"), ended("2", "kill-all", "none")])
    assert systems.unchanged(runs, before, before)["run_id"].tolist() == ["1", "2"]
    assert systems.unchanged(runs, before, now)["run_id"].tolist() == ["1"]
    more = before + b"    repetitions = 30"
    assert systems.unchanged(runs, before, more)["run_id"].tolist() == ["1", "2"]
    other_plan = before.replace(b"a.toml", b"b.toml")
    assert systems.unchanged(runs, before, other_plan).empty
