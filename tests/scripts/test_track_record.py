"""Historical defects: every row can be run, and a row counts as seen only with its control."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.command_line import ackloss
from tests.fixtures.scripts import script

pytestmark = pytest.mark.slow

track = script("track_record")
ROWS = track.rows()
ROW = track.Row(
    ticket="T-1",
    defect="loses",
    plan="p",
    affected=track.Side(version="1", shows="lost"),
    control=track.Side(version="2", shows="valid"),
)


def run(verdict: str | None, *doubts: str, acknowledged: int = 100, **counts: int) -> Any:
    return track.Run(
        verdict=verdict, reason="", doubts=doubts, acknowledged=acknowledged, counts=counts
    )


LOSES, KEEPS = run("invalid", lost=7), run("valid", lost=0)
UNKNOWN, FAILED = run("unknown", "starved", lost=0), run(None, acknowledged=0)


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
    ("verdict", "is_none"),
    [
        (KEEPS, True),
        (UNKNOWN, True),
        (LOSES, False),
        (FAILED, False),
        (run("valid"), False),
        (run("valid", acknowledged=0, lost=0), False),
        (run("unknown", "unproven", lost=0), False),
        (run("unknown", "not_yet_visible", "incomplete", lost=0), False),
    ],
)
def test_a_count_is_none_only_where_it_was_counted_under_the_fault(
    verdict: Any, is_none: bool
) -> None:
    assert track.Side(version="2", none=("lost",)).is_shown_by(verdict) is is_none


def test_a_count_shows_a_defect_only_where_the_fault_was_in_force() -> None:
    side = track.Side(version="1", shows="lost")
    assert side.is_shown_by(run("invalid", lost=3))
    assert not side.is_shown_by(run("invalid", "unmet", lost=3))


@pytest.mark.parametrize(
    ("expected", "why"),
    [
        ({}, "one of shows, none and doubt"),
        ({"shows": "lost", "none": ("lost",)}, "one of shows, none and doubt"),
        ({"shows": "lost", "doubt": "incomplete"}, "one of shows, none and doubt"),
        ({"doubt": "lost"}, "no doubt 'lost'"),
    ],
)
def test_a_side_that_expects_nothing_or_two_things_is_refused(
    expected: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        track.Side(version="1", **expected)


def test_a_side_may_be_a_doubt() -> None:
    side = track.Side(version="1", doubt="incomplete")
    assert side.is_shown_by(run("unknown", "starved", "incomplete"))
    assert not side.is_shown_by(UNKNOWN)
    assert not side.is_shown_by(FAILED)


def test_counts_are_those_of_any_check_and_the_first_one_goes_before() -> None:
    checks = [{"counts": {"lost": 1, "skipped": 3}}, {"counts": {"lost": 2, "torn-transaction": 4}}]
    result = {"verdict": "invalid", "reason": "", "doubts": [], "counts": {}, "checks": checks}
    for shows, number in {"lost": 1, "skipped": 3, "torn-transaction": 4}.items():
        side = track.Side(version="1", shows=shows)
        assert track.run_of(result, side).counts == {shows: number}
    unknown_to_all = track.Side(version="1", shows="lsot")
    assert not unknown_to_all.is_shown_by(track.run_of(result, unknown_to_all))
    failed = track.run_of({"error": {"what": "no Docker"}}, unknown_to_all)
    assert (failed.verdict, failed.reason) == (None, "no Docker")


def test_a_row_that_has_changed_since_has_not_been_run(files: Path) -> None:
    row, now = ROWS[0], track.commands(ROWS[0])
    kept = outcome([LOSES], [KEEPS])
    for commands, runs, known in (
        (now, [LOSES], {row.ticket}),
        (now, [FAILED], {row.ticket}),
        ((("run", "old"),), [LOSES], set()),
        (now, [run("invalid", skipped=7)], set()),
    ):
        last = kept.model_copy(update={"commands": commands, "affected": tuple(runs)})
        last = last.model_copy(update={"control": (run("valid"),)})
        (files / "seen.json").write_text(f'{{"{row.ticket}": {last.model_dump_json()}}}')
        assert set(track.seen()) == known


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which pages and results are written meanwhile."""
    monkeypatch.setattr(track, "SEEN", tmp_path / "seen.json")
    monkeypatch.setattr(track, "PAGE", tmp_path / "page.md")
    return tmp_path


def exit_code(monkeypatch: pytest.MonkeyPatch, *words: str, missed: str | None = None) -> int:
    """Run rows whose runs show what they are to show, but for the row `missed`."""

    def shows(row: Any, side: Any) -> Any:
        wrong = row.ticket == missed
        return run(
            "unknown" if wrong or side.shows not in track.VERDICTS else side.shows,
            *([] if wrong or side.doubt is None else [side.doubt]),
            **dict.fromkeys(side.counts, int((side.shows is not None) != wrong)),
        )

    monkeypatch.setattr(track, "run_once", shows)
    monkeypatch.setattr(track.Row, "prepare", lambda _: None)
    monkeypatch.setattr(sys, "argv", ["track_record.py", "--runs", "1", *words])
    code: int = track.main()
    return code


def test_every_row_is_played_and_one_that_is_missed_fails(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exit_code(monkeypatch) == 0
    page = (files / "page.md").read_text()
    assert set(track.seen()) == {row.ticket for row in ROWS}
    assert "Not seen" not in page
    assert "Never run" not in page
    for row in ROWS:
        assert exit_code(monkeypatch, "--only", row.ticket, missed=row.ticket) == 1
        found, not_seen = (files / "page.md").read_text().split("## Not seen")
        assert f"| {row.ticket} |" not in found
        assert f"| {row.ticket} |" in not_seen
        assert exit_code(monkeypatch, "--only", row.ticket) == 0


def test_results_of_rows_that_were_not_run_are_kept(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = ROWS[0].ticket, ROWS[1].ticket
    exit_code(monkeypatch, "--only", first)
    kept = track.seen()[first]
    assert exit_code(monkeypatch, "--only", second) == 0
    assert track.seen()[first] == kept
    assert set(track.seen()) == {first, second}
    assert f"| {first} |" in (files / "page.md").read_text()


def test_an_unknown_ticket_is_refused(
    files: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        exit_code(monkeypatch, "--only", "KAFKA-0")
    assert ended.value.code == 2
    assert "KAFKA-0" in capsys.readouterr().err
    assert not any(files.iterdir())


def test_a_run_through_the_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the reference system: a defect that it has, and a plan that is refused."""
    plan = "memory/acknowledge-before-replication"
    side = track.Side(version="1", shows="lost", plan=plan)
    monkeypatch.setattr(track.Row, "command", lambda self, each: ["run", each.plan])
    assert side.is_shown_by(track.run_once(ROW, side))
    refused = track.run_once(ROW, side.model_copy(update={"plan": "no-such-plan"}))
    assert refused.verdict is None
    assert "no-such-plan" in refused.reason


def test_a_run_that_does_not_end_has_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    side = track.Side(version="1", shows="lost")
    words = ["run", "memory/log", "--set", "workload.duration_s=60"]
    monkeypatch.setattr(track.Row, "command", lambda *_: words)
    monkeypatch.setattr(track, "LONGEST_S", 1)
    ended = track.run_once(ROW, side)
    assert (ended.verdict, ended.reason) == (None, "no result after 1 s")


def test_the_page_is_that_of_the_rows_and_of_what_was_seen() -> None:
    assert track.PAGE.read_text(encoding="utf-8") == track.page(track.seen())


def test_what_was_tried_has_all_its_columns() -> None:
    tickets = {row.ticket for row in ROWS}
    for each in track.tried():
        assert each.ticket not in tickets
        assert all(each.model_dump().values())
        assert f"| {each.ticket} | {each.defect} | {each.tried} |" in track.page({})


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
    assert "lost in 1 of 2: 7/100; 0/100 (others: unknown)" in found
    assert "valid in 0 of 1 (others: unknown)" in missed
    assert f"Never run: {ROWS[2].ticket}" in missed
