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
        row("default", "kill-all", 0, 10),
        row("safest", "isolate-leader", 0, 10),
        row("broken", "isolate-leader", 0, 0),
    ]
)


def test_sentences_say_what_was_lost_and_what_was_not() -> None:
    first, second = systems.sentences(CELLS)
    assert first == (
        "**`default`** lost acknowledged writes under `isolate-leader` (9 of 10, median 80 %)."
    )
    assert second == (
        "**`safest`** lost nothing in 10 conclusive runs (schedules: 1); "
        "**`broken`** has no conclusive run."
    )


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
    page = systems.PAGE.read_text(encoding="utf-8")
    systems.write()
    try:
        assert systems.PAGE.read_text(encoding="utf-8") == page, "python -m scripts.systems --write"
    finally:
        systems.PAGE.write_text(page, encoding="utf-8")
