"""Claims: every plan can be run, and nothing that is wrong or not known is said to hold."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from ackloss.session import Session
from scripts import claims, majority
from tests.fixtures.command_line import ackloss

pytestmark = pytest.mark.slow

CLAIMS = claims.claims()
PARTS = {" ".join(part.command): part for claim in CLAIMS for part in claim.parts if part.plan}
LOSES, KEEPS = {"verdict": "invalid", "lost": 7}, {"verdict": "valid", "lost": 0}
NOT_TRIED = {"verdict": "unknown", "lost": 0, "eligible": False}
LOST_ALL_THE_SAME = {"verdict": "invalid", "lost": 7, "eligible": False}
FAILED = {"verdict": None, "eligible": False}


def run(*, verdict: str | None, eligible: bool = True, **figures: float) -> Any:
    return claims.Run(date="2026-11-28", verdict=verdict, eligible=eligible, figures=figures)


def verdict_of(*parts: dict[str, Any], limits: str = "", **runs: list[dict[str, Any]]) -> str:
    """The verdict on a claim whose parts' plans showed these runs."""
    claim = claims.Claim(
        id="A1", claim="c", source="s", limits=limits, parts=tuple(map(part, parts))
    )
    by_command = {f"run {plan}": [run(**each) for each in some] for plan, some in runs.items()}
    words: str = claims.verdict(claim, claims.answers_of(claim, by_command))
    return words


def part(keys: dict[str, Any]) -> Any:
    return claims.Part.model_validate(keys)


def test_there_are_all_claims_of_the_five_documents() -> None:
    numbered = {"A": 11, "B": 16, "C": 13, "E": 12}
    wanted = [f"{letter}{n}" for letter, count in numbered.items() for n in range(1, count + 1)]
    assert [claim.id for claim in CLAIMS] == wanted


def test_every_plan_can_be_run() -> None:
    for part in PARTS.values():
        resolved = Session(force=part.force).resolve(Path(part.plan), part.changes)
        cells = {cell.name for cell in resolved.plan.cells}
        assert part.cell is None or part.cell in cells, part


def test_every_cell_of_a_table_is_there() -> None:
    tables = [part for claim in CLAIMS for part in claim.parts if part.table]
    assert len(tables) > 10
    for part in tables:
        assert claims.rows_of(part) if part.file else claims.cell_of(part)["runs"] > 0, part
    with pytest.raises(ValueError, match="no cell 'version=9'"):
        claims.cell_of(tables[0].model_copy(update={"cell": "version=9"}))


KEPT, LOST = {"plan": "p", "expect": "valid"}, {"plan": "p", "expect": "lost > 0"}


@pytest.mark.parametrize(
    ("asked", "runs", "verdict"),
    [
        (KEPT, [KEEPS, KEEPS], "holds"),
        (KEPT, [KEEPS, NOT_TRIED], "holds"),
        (KEPT, [KEEPS, LOSES], "**does not hold**"),
        (KEPT, [KEEPS, LOST_ALL_THE_SAME], "**does not hold**"),
        (KEPT, [NOT_TRIED, FAILED], "not answered yet"),
        (KEPT, [], "not answered yet"),
        (LOST, [LOSES], "holds"),
        (LOST, [KEEPS], "**does not hold**"),
        (LOST, [FAILED], "not answered yet"),
        ({**LOST, "some": True}, [KEEPS, LOSES], "holds"),
        ({**LOST, "some": True}, [KEEPS, KEEPS], "not seen"),
        ({**LOST, "some": True}, [NOT_TRIED], "not answered yet"),
        ({"plan": "p", "expect": "no_such_count == 0"}, [KEEPS], "not answered yet"),
        ({"plan": "p", "expect": "valid", "cell": "c"}, [KEEPS], "not answered yet"),
    ],
)
def test_a_claim_holds_only_where_all_conclusive_runs_are_as_expected(
    asked: dict[str, Any], runs: list[dict[str, Any]], verdict: str
) -> None:
    assert verdict_of(asked, p=runs) == verdict
    with_limits = verdict_of(asked, limits="at night", p=runs)
    assert with_limits == ("holds with limits" if verdict == "holds" else verdict)


def test_one_part_that_is_wrong_or_not_known_decides() -> None:
    parts = ({"plan": "p", "expect": "valid"}, {"plan": "q", "expect": "valid"})
    assert verdict_of(*parts, p=[KEEPS], q=[KEEPS]) == "holds"
    assert verdict_of(*parts, p=[KEEPS]) == "not answered yet"
    assert verdict_of(*parts, p=[KEEPS], q=[NOT_TRIED]) == "not answered yet"
    assert verdict_of(*parts, q=[LOSES]) == "**does not hold**"
    limit = {"plan": "q", "expect": "lost > 0", "limit": True}
    assert verdict_of(KEPT, limit, p=[KEEPS], q=[LOSES]) == "holds with limits"
    assert verdict_of(KEPT, limit, p=[KEEPS]) == "not answered yet"
    assert verdict_of(KEPT, limit, p=[LOSES], q=[LOSES]) == "**does not hold**"


def test_a_doubt_that_the_plan_brings_about_may_be_named() -> None:
    asked = part({**KEPT, "expect": "lost == 0", "despite": ["replicas"]})
    for doubts, text in (
        (("replicas", "not_yet_visible"), "1 of 1 (≥ 2 %)"),
        (("replicas", "starved"), "no conclusive run of 1"),
        (("starved",), "no conclusive run of 1"),
        ((), "no conclusive run of 1"),
    ):
        seen = run(verdict="unknown", eligible=False, lost=0).model_copy(update={"doubts": doubts})
        assert claims.answer(asked, [seen], {}).words == text
        assert claims.answer(part(KEPT), [seen], {}).words == "no conclusive run of 1"


def test_a_claim_without_parts_is_open_unless_it_says_why() -> None:
    claim = claims.Claim(id="A1", claim="c", source="s")
    assert claims.verdict(claim, []) == "not answered yet"
    stated = claim.model_copy(update={"cannot": "it needs a data centre"})
    assert claims.verdict(stated, []) == "cannot be tested here"


def test_a_figure_may_be_compared_with_that_of_an_earlier_part() -> None:
    parts = (
        {"plan": "p", "name": "fast", "expect": "n > 0"},
        {"plan": "q", "expect": "n < 0.1 * fast.n"},
    )
    fast, slow = {"verdict": "valid", "n": 1000}, {"verdict": "valid", "n": 99}
    assert verdict_of(*parts, p=[fast], q=[slow]) == "holds"
    assert verdict_of(*parts, p=[slow], q=[slow]) == "**does not hold**"
    assert verdict_of(*parts, q=[slow]) == "not answered yet"
    assert verdict_of(*reversed(parts), p=[fast], q=[slow]) == "not answered yet"


def test_where_the_outcome_chose_the_runs_bounds_over_all_are_printed() -> None:
    seen = [run(**KEEPS)] * 9 + [run(verdict="invalid", eligible=False, lost=3)]
    found = claims.answer(part({**LOST, "some": True}), seen, {})
    assert found.words == "0 of 9, 1 of 1 others (0–45 %)"
    assert claims.answer(part(KEPT), [run(**KEEPS)] * 3, {}).words == "3 of 3 (≥ 29 %)"


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"expect": "valid"}, "either a plan or a table"),
        ({"expect": "valid", "plan": "p", "table": "t"}, "either a plan or a table"),
        ({"expect": "lost>0", "plan": "p"}, "'lost>0' is not"),
        ({"expect": "valid or invalid", "plan": "p"}, "'valid or invalid' is not"),
        ({"expect": "kept", "plan": "p"}, "'kept' is not"),
        ({"expect": "valid", "plan": "p", "colour": 1}, "colour"),
    ],
)
def test_a_part_that_asks_nothing_is_refused(keys: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        part(keys)


def test_the_page_is_that_of_the_data_and_short() -> None:
    text = claims.PAGE.read_text(encoding="utf-8")
    assert text == claims.page(), "run `python -m scripts.claims --page`"
    assert len(text.split()) < 3000


def test_runs_are_kept_one_by_one_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "SEEN", tmp_path / "claims.json")
    monkeypatch.setattr(claims, "PAGE", tmp_path / "claims.md")
    done: list[tuple[str, int]] = []

    def once(part: Any, number: int) -> Any:
        done.append((part.plan, number))
        return run(verdict="valid")

    monkeypatch.setattr(claims, "run_once", once)

    def main(*words: str) -> int:
        monkeypatch.setattr(sys, "argv", ["claims.py", *words])
        code: int = claims.main()
        return code

    plans = [part.plan for claim in CLAIMS if claim.id == "B12" for part in claim.parts]
    assert main("--only", "B12", "--runs", "2", "--at-most", "2") == 0
    assert done == [(plan, 0) for plan in plans[:2]]
    assert main("--only", "B12", "--runs", "2") == 0
    assert done == [(plan, 0) for plan in plans] + [(plan, 1) for plan in plans]
    assert main("--only", "B12", "--runs", "2") == main("--check") == 0
    assert len(done) == 2 * len(plans)
    assert "| B12 |" in (tmp_path / "claims.md").read_text(encoding="utf-8")
    (tmp_path / "claims.md").write_text("holds", encoding="utf-8")
    assert main("--check") == 1
    with pytest.raises(SystemExit):
        main("--only", "Z1")


@pytest.mark.full
def test_a_run_through_the_command_line() -> None:
    """In the reference system: what it found, by name, and that a plan was refused."""
    loses = claims.run_once(part({**LOST, "plan": "memory/acknowledge-before-replication"}))
    assert (loses.verdict, loses.eligible) == ("invalid", True)
    assert loses.figures["lost"] > 0 < loses.figures["availability.longest_gap_s"]
    cells = claims.run_once(part({**LOST, "plan": "memory/cells"})).cells
    assert len(cells) == 4
    assert all("lost" in cell.figures for cell in cells.values())
    refused = claims.run_once(part({**LOST, "plan": "no-such-plan"}))
    assert (refused.verdict, refused.eligible) == (None, False)
    assert "no-such-plan" in refused.reason


def test_a_run_that_exists_is_kept_for_the_claim_that_asks_its_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("memory/acknowledge-before-replication", "workload.duration_s=5")
    done = ackloss("run", words[0], "--set", words[1], "--out", str(tmp_path), "--seed", "5")
    assert done.exit_code == 1, done.output
    (folder,) = tmp_path.iterdir()
    asked = part({**LOST, "plan": words[0], "changes": [words[1]]})
    others = part({**LOST, "plan": words[0]})
    for parts, found in (((others, asked), asked), ((others,), None)):
        claim = claims.Claim(id="A1", claim="c", source="s", parts=parts)
        monkeypatch.setattr(claims, "claims", lambda each=claim: [each])
        if found is None:
            with pytest.raises(ValueError, match="no claim asks this plan"):
                claims.command_of(folder)
        else:
            assert claims.command_of(folder) == " ".join(found.command)
    seen = claims.run_of(folder, "2026-11-28")
    assert claims.answer(asked, [seen], {}).words == "1 of 1 (≥ 2 %)"


def test_the_picture_of_the_majority_is_drawn_from_a_table() -> None:
    cells = pd.read_csv(claims.RESULTS / "2026-11-23-isr-settings/tables/cells.csv")
    drawn = majority.draw(cells, ["unclean=true,acks=all,faults=storm"])
    assert drawn.startswith(b"\x89PNG")
    assert drawn != majority.draw(cells, ["unclean=false,acks=all,faults=storm"])
    with pytest.raises(ValueError, match="no cell has 'acks=2'"):
        majority.draw(cells, ["acks=2"])


@pytest.mark.parametrize(
    ("said", "found"),
    [
        ("the ISR was {b1, b2}", {"lost.smallest_isr": 2}),
        ("the ISR was {b1, b2} for 3, {b2} for 1", {"lost.smallest_isr": 1}),
        ("the ISR was {b1, b2} for 3", {}),
        ("acks=all", {}),
    ],
)
def test_who_was_in_sync_counts_if_it_is_known_of_every_lost_write(
    said: str, found: dict[str, int], tmp_path: Path
) -> None:
    fact = {"kind": "acknowledged", "text": said}
    chains = {"chains": [{"writes": 4, "facts": [fact]}]}
    (tmp_path / "explanations.json").write_text(json.dumps(chains))
    assert claims._smallest_isr_of_lost(tmp_path, {"causes": {"any": 4}}) == found
    assert claims._smallest_isr_of_lost(tmp_path, {"causes": {"any": 4}, "unexplained": 1}) == {}
