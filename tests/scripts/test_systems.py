"""The page of all systems is what its tables say, and its sentences follow the numbers."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

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
        "wrong": 0,
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
        "some runs (10 each) under `isolate-leader`, and none under 1 other. Of the other settings "
        "`safest` lost under the fewest schedules: acknowledged writes were lost in some runs (10 "
        "each) under `lag-kill`, and none under 2 others."
    )


def test_what_lost_nothing_and_broke_another_promise_is_said() -> None:
    cells = pd.DataFrame([row("default", "lag", 1, 4), row("default", "kill-all", 0, 4, wrong=3)])
    assert systems.sentences(cells).endswith(
        "and none under 1 other (but 3 each are *wrong* under `kill-all`)."
    )
    assert systems._in_words(cells.to_dict("records")[1]) == "0/4, 3 *wrong*"
    runs = pd.DataFrame({each: [0] for each in systems.COLUMNS})
    runs = runs.assign(**{"settings": "s", "schedule": "k", "class": "wrong", "conclusive": True})
    assert systems.cells_of(runs)[["conclusive", "conclusive_lossy", "wrong"]].values.tolist() == [
        [1, 0, 1]
    ]


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
        "`kill-all`, and none under 1 other."
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


def test_the_answer_says_which_systems_lost_nothing_by_default_or_otherwise() -> None:
    known = CELLS[CELLS["key.settings"] != "broken"]
    kept = known[known["key.settings"] == "default"].assign(conclusive_lossy=0)
    none_left = known["conclusive_lossy"].where(known["key.settings"] != "safest", 0)
    better = known.assign(conclusive_lossy=none_left)
    assert systems.answer({"etcd": kept, "nats": better, "redis": CELLS}) == (
        "With `default`, nothing was lost by etcd (30 conclusive runs). Lost acknowledged writes "
        "with it, and none with other settings: NATS JetStream. Lost some with all settings "
        "compared: Redis with Sentinel."
    )
    assert systems.answer({"redis": CELLS}) == (
        "Lost some with all settings compared: Redis with Sentinel."
    )


def test_the_picture_has_a_tile_for_each_cell() -> None:
    figure = systems.drawn({"redis": CELLS})
    texts = [each.get_text() for each in figure.axes[0].texts]
    assert texts == [
        *("9/10", "0/10", "10/10"),
        *("1/10", "0/10", "1/10"),
        *("0/10", "0/10", "1/10"),
        *("(1/2)", "0/10"),
    ]


def test_a_matrix_has_shares_with_the_end_of_the_interval_that_decides() -> None:
    page = systems.page({"redis": CELLS})
    assert "| settings | `isolate-leader` | `kill-all` | `lag-kill` |\n|---|---|---|---|" in page
    open_ = "`0/n` leaves open (95 %) that a share of runs loses: at most "
    assert page.startswith(open_ + "31 % (n = 10).\n")
    for row in (
        "| `default` | **9/10** (55–100 %), 80 % lost | 0/10 | **10/10** (≥ 69 %), 80 % lost |",
        "| `broken` | none + **1/2** others | 0/10 | - |",
    ):
        assert row in page
    assert any("of 1,998 acknowledged writes 872" in line for line in systems.published())


def test_losses_in_runs_that_do_not_count_have_the_bounds_over_all() -> None:
    cells = pd.DataFrame([row("a", "kill-all", 4, 5, inconclusive=1, inconclusive_lossy=1)])
    page = systems.page({"redis": cells})
    assert "| `a` | **4/5** + **1/1** others (35–100 %), 80 % lost |" in page


def test_the_table_has_every_cell_with_its_limits_and_medians() -> None:
    every = systems.all_cells({"redis": CELLS, "valkey": CELLS[:1]})
    assert every["system"].value_counts().to_dict() == {"redis": 11, "valkey": 1}
    first, unknown = every.iloc[0], every.set_index("settings").loc["broken"].iloc[0]
    assert (first["settings"], first["schedule"]) == ("default", "isolate-leader")
    limits = [first[f"lossy_share.shown_{end}"] for end in ("low", "high")]
    assert limits == [pytest.approx(0.555, abs=1e-3), pytest.approx(0.9975, abs=1e-4)]
    assert first["longest_gap_s.median"] == 4.321
    assert pd.isna(unknown["lossy_share.shown_low"])


def test_runs_of_shipped_plans_are_counted_by_verdict() -> None:
    keys = ("plan", "version", "verdict")
    rows = [("a/b", None, "invalid"), ("a/b", "1.2", "invalid"), ("a/c", "1.2", "valid")]
    runs = pd.DataFrame([dict(zip(keys, row, strict=True)) for row in rows])
    words = " ".join(systems.runs_in_words(runs))
    assert "2 plans, 3 with their versions" in words
    assert "2 `invalid`, 1 `valid`" in words


def test_the_page_and_its_table_are_those_of_the_published_tables() -> None:
    known = systems.tables()
    command = "python -m scripts.systems --write"
    assert systems.PAGE.read_text(encoding="utf-8") == systems.written(known), command
    assert systems.CELLS.read_text(encoding="utf-8") == systems.as_csv(known), command


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
    for more in (b"repetitions = 30", b'exclude = [{ schedule = ["lag-kill"] }]'):
        as_many = systems.unchanged(runs, before, before + b"    " + more)
        assert as_many["run_id"].tolist() == ["1", "2"], more
    other_plan = before.replace(b"a.toml", b"b.toml")
    assert systems.unchanged(runs, before, other_plan).empty
