"""Historical defects: every row can be run, and a row counts as seen only with its control."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.command_line import ackloss
from tests.fixtures.scripts import script

track = script("track_record")
ROWS = track.rows()
ROW = track.Row(
    ticket="T-1",
    defect="loses",
    plan="p",
    affected=track.Side(version="1", shows="lost"),
    control=track.Side(version="2", shows="valid"),
)
LOSES = track.Run(verdict="invalid", reason="lost", acknowledged=100, lost=7)
KEEPS = track.Run(verdict="valid", reason="all there", acknowledged=100)
UNKNOWN = track.Run(verdict="unknown", reason="starved", acknowledged=100)
FAILED = track.Run(verdict=None, reason="no Docker")


def outcome(affected: list[Any], control: list[Any]) -> Any:
    return track.Outcome(
        date="2026-11-23", commands=(), affected=tuple(affected), control=tuple(control)
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.ticket)
@pytest.mark.parametrize("side", ["affected", "control"])
def test_each_side_can_be_run(row: Any, side: str) -> None:
    words = track.Row.command(row, getattr(row, side))
    done = ackloss(*words, "--dry-run", "--json")
    assert done.exit_code == 0, done.output


def test_tickets_differ() -> None:
    assert len({row.ticket for row in ROWS}) == len(ROWS) >= 10


@pytest.mark.parametrize(
    ("affected", "control", "seen"),
    [
        ([LOSES, KEEPS], [KEEPS, KEEPS], True),
        ([KEEPS, KEEPS], [KEEPS, KEEPS], False),
        ([LOSES, LOSES], [KEEPS, LOSES], False),
        ([LOSES, LOSES], [KEEPS, UNKNOWN], False),
        ([LOSES, LOSES], [FAILED], False),
        ([UNKNOWN, FAILED], [KEEPS], False),
    ],
)
def test_a_defect_is_seen_with_its_control(
    affected: list[Any], control: list[Any], seen: bool
) -> None:
    assert track.is_seen(ROW, outcome(affected, control)) is seen


@pytest.mark.parametrize(
    ("run", "readable"), [(KEEPS, True), (UNKNOWN, True), (LOSES, False), (FAILED, False)]
)
def test_what_is_unknown_for_another_reason_can_be_readable(run: Any, readable: bool) -> None:
    assert run.has_shown("readable") is readable
    assert not run.has_shown("not_yet_visible")


def test_a_row_that_has_changed_since_has_not_been_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row, file = ROWS[0], tmp_path / "seen.json"
    monkeypatch.setattr(track, "SEEN", file)
    for commands, known in ((track.commands(row), {row.ticket}), ((("run", "old"),), set())):
        last = outcome([LOSES], [KEEPS]).model_copy(update={"commands": commands})
        file.write_text(f'{{"{row.ticket}": {last.model_dump_json()}}}')
        assert set(track.seen()) == known


def test_the_page_has_counts_and_what_was_not_seen() -> None:
    first, second = ROWS[0], ROWS[1]
    assert first.affected.shows == second.affected.shows == "lost"
    text = track.page(
        {
            first.ticket: outcome([LOSES, UNKNOWN], [KEEPS]),
            second.ticket: outcome([LOSES], [UNKNOWN]),
        }
    )
    found, missed = text.split("## Not seen")
    assert f"| {first.ticket} |" in found
    assert f"| {second.ticket} |" in missed
    assert "lost in 1 of 2: 7 of 100; 0 of 100 (others: unknown)" in found
    assert "valid in 0 of 1 (others: unknown)" in missed
    assert f"Never run: {ROWS[2].ticket}" in missed
