"""The page of all systems is what its tables say, and its sentences follow the numbers."""

from __future__ import annotations

import json
import tomllib
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
    open_ = "`0/n` leaves open (95 %) that a share of runs loses: at most (n) "
    limits = "98 % (1), 85 % (2), 71 % (3), 53 % (5), 31 % (10), 17 % (20).\n"
    assert page.startswith(open_ + limits)
    for row in (
        "| `default` | **9/10** (55–100 %), 80 % lost | 0/10 | **10/10** (≥ 69 %), 80 % lost |",
        "| `broken` | none + **1/2** others | 0/10 | - |",
    ):
        assert row in page


def test_what_others_have_published_is_beside_the_cells_that_are_most_like_it() -> None:
    """Where none is, beside what the default loses."""
    nats = CELLS.replace({"safest": "sync-always", "lag-kill": "lag-power-loss"})
    said = systems.published({"redis": CELLS, "nats": nats, "etcd": CELLS[2:3]})
    lines = {line.split("**")[1]: line for line in said if line.startswith("- ")}
    redis = "(56 % lost). Here: `default` under `isolate-leader` **9/10** (55–100 %), 80 % lost."
    assert lines["Redis with Sentinel"].endswith(redis)
    assert lines["NATS JetStream"].endswith(
        " Here: `sync-always` under `lag-power-loss` **1/10** (0–45 %), 80 % lost."
    )
    assert lines["etcd"].endswith(
        "Here: with `default` nothing was lost in 10 conclusive runs under 1 schedule; "
        "unacknowledged success up to 0.1 % in the median run."
    )
    assert "Here" not in lines["RabbitMQ"]


def test_the_default_is_beside_what_is_advised() -> None:
    """One that the default already is has one row. A loss counts in any run; medians are of runs
    that count."""
    redis = CELLS.replace({"safest": "strictest"})
    redis.loc[redis["key.schedule"] == "kill-all", "longest_gap_s.median"] = 12.0
    redis.loc[redis["key.settings"] == "strictest", "duplicates.median"] = 3.0
    lost_elsewhere = row("default", "kill-all", 0, 0, inconclusive=2, inconclusive_lossy=1)
    etcd = pd.DataFrame([row("default", "lag-kill", 0, 4), lost_elsewhere])
    etcd.loc[1, ["loss_rate.median", "longest_gap_s.median"]] = [0.9, 99.0]
    etcd["wrong"] = [2, 0]
    rows = [line for line in systems.beside({"redis": redis, "etcd": etcd}) if "| `" in line]
    assert rows == [
        "| Redis with Sentinel | `default` | 2 of 3 schedules | 80 % (`isolate-leader`) | "
        "4.3 to 12 s | 0.1 % | - |",
        "| Redis with Sentinel | `strictest`, advised | 1 of 3 schedules | 80 % (`lag-kill`) | "
        "4.3 to 12 s | 0.1 % | 3 |",
        "| etcd | `default`, advised | 1 of 2 schedules, 1 *wrong* | 0 % | 4.3 to 4.3 s | 0.1 % "
        "| - |",
    ]


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


def test_runs_are_in_the_order_of_their_campaign_file_whatever_ran_first() -> None:
    """The page says of `default` what it counts of the first settings."""
    settings, schedules = ("safe", "default", "safe"), ("lag-kill", "kill-all", "kill-all")
    runs = pd.DataFrame({"settings": settings, "schedule": schedules, "run_id": ["1", "2", "3"]})
    campaign = tomllib.loads(FILE.format(about="", s=1))
    assert systems.in_order(runs, campaign)["run_id"].tolist() == ["2", "1", "3"]
    for system in systems.NAMES:
        published = pd.read_csv(systems.RESULTS / f"runs/{system}.csv")
        assert published["settings"].iloc[0] == systems.DEFAULT


FILE = """
plan = "a.toml"
about = "{about}"
axes.settings.choices = {{ default = {{}}, safe.set = {{ "target.a" = 1 }} }}
axes.schedule.choices = {{ lag-kill.set = {{ faults = [] }}, kill-all.set = {{ load.s = {s} }} }}
"""
PLAN = {"name": "a", "about": "", "expect": "valid", "load": {"s": 9}, "faults": ["own"]}
RUNS = pd.DataFrame([ended("1", "lag-kill", "loss"), ended("2", "kill-all", "none")])


def unchanged(before: str, now: str, *, plan: dict[str, Any] = PLAN) -> list[str]:
    """The runs that stay where the campaign file, or its base plan, is another one now."""
    campaigns = [
        (text.encode(), json.dumps(p).encode()) for text, p in ((before, PLAN), (now, plan))
    ]
    return [*systems.unchanged(RUNS, *campaigns)["run_id"]]


def test_runs_of_a_cell_that_has_changed_since_are_not_added() -> None:
    """Once all runs were left out when a campaign file changed for some of its cells."""
    before, now = (FILE.format(about=s, s=s) for s in (1, 2))
    assert unchanged(before, before) == ["1", "2"]
    assert unchanged(before, now) == ["1"]
    for more in ("repetitions = 30", 'exclude = [{ schedule = ["lag-kill"] }]'):
        assert unchanged(before, before + more) == ["1", "2"], more
    assert not unchanged(before, before.replace("a.toml", "b.toml"))
    assert unchanged(before, before.replace("kill-all", "kill-some")) == ["1"]


def test_runs_of_another_base_plan_are_not_added_unless_their_cells_are_the_same() -> None:
    """Once they were, since a campaign file only names its plan."""
    text = FILE.format(about="", s=1)
    for words in ({"about": "more"}, {"expect": "invalid"}, {"name": "b"}):
        assert unchanged(text, text, plan={**PLAN, **words}) == ["1", "2"], words
    assert unchanged(text, text, plan={**PLAN, "faults": ["others"]}) == ["1"]
    assert unchanged(text, text, plan={**PLAN, "load": {"s": 8}}) == ["2"]
    assert not unchanged(text, text, plan={**PLAN, "target": {"nodes": 5}})


def test_each_published_campaign_is_with_its_base_plan() -> None:
    """Its runs could not be compared with later ones."""
    runs = systems.RESULTS / "runs"
    names = {path.stem for path in runs.glob("*.csv")}
    assert names == {path.stem for path in runs.glob("*.toml")}
    assert names == {path.name.removesuffix(".plan.json") for path in runs.glob("*.plan.json")}
