"""`ackloss lake report`: output, files and exit codes; bad input is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.lake.delta import CELLS, open_lake
from tests.fixtures.campaign_folder import OFF, ON
from tests.fixtures.command_line import ackloss, ackloss_json
from tests.fixtures.lakes import ROOT, campaign, lake_of
from tests.fixtures.result_documents import lossy, run

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("undrawn")]


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    one = campaign(tmp_path / "one", {ON: [lossy()] * 2 + [run()], OFF: [run()]})
    two = campaign(tmp_path / "two", {ON: [run()], OFF: []}, name="other")
    lake_of(tmp_path / "lake", one, two)
    return tmp_path / "lake"


def test_it_prints_the_rates_and_writes_the_requested_files(lake: Path, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("p.html", "p.md")}
    done = ackloss(
        "lake", "report", "--lake", lake, "--html", files["p.html"], "--markdown", files["p.md"]
    )
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("2 of 5 (40.0 %) conclusive runs with lost writes\n")
    assert f"  {ON}, 4.3.1: 2 of 4: 50.0 % (6.8 % to 93.2 %)" in done.stdout
    assert files["p.html"].read_text().startswith("<!DOCTYPE html>")
    text = files["p.md"].read_text()
    assert text.startswith("# 2 of 5 (40.0 %) conclusive runs with lost writes\n")
    assert f"The largest shares: {ON}, 4.3.1: 2 of 4 (50.0 %)" in text
    assert "2 campaigns, 2 cells, 5 runs" in text


def test_json_is_the_document_and_nothing_else(lake: Path) -> None:
    document = ackloss_json("lake", "report", "one", "one", "--lake", lake)
    assert document["schema"] == 1
    assert document["simulated"] is False
    assert [each["id"] for each in document["campaigns"]] == ["one"]
    (group,) = document["groups"]
    assert group["versions"] == ["4.3.1"]
    (pool,) = group["settings"][1]["versions"][0]["pools"]
    assert (pool["lossy"], pool["conclusive"], pool["ran"]) == (2, 3, "4.3.1")
    assert pool["loss_rate"]["median"] == 0.1
    assert [line["name"] for line in group["trend"]] == [OFF, ON]
    assert group["trend"][1]["campaigns"][0]["loss_rate"]["median"] == 0.1


def test_simulated_results_say_so(tmp_path: Path) -> None:
    base = (ROOT / "plans/memory/log.toml").read_text(encoding="utf-8")
    runs = {"the plan as it is": [{**run(), "simulated": True}]}
    lake_of(tmp_path / "lake", campaign(tmp_path / "c", runs, axes="", base=base))
    page = tmp_path / "p.html"
    done = ackloss("lake", "report", "--lake", tmp_path / "lake", "--html", page)
    assert done.stdout.startswith("Simulated: 0 of 1 (0 %) conclusive runs with lost writes")
    assert "Simulated.</strong>" in page.read_text()


def test_bad_input_is_one_sentence(lake: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    cases = {
        ("--lake", tmp_path / "empty"): (4, "this is not a lake: it has no table campaigns"),
        ("--lake", tmp_path / "absent"): (4, "this is not a lake: it has no table campaigns"),
        ("--lake", lake, "ome"): (4, "has no campaign 'ome'; did you mean 'one'?"),
        ("--lake", lake, "x"): (4, "has no campaign 'x'; it has: one, two"),
        ("--lake", lake, "--html", tmp_path / "no" / "p.html"): (5, "p.html"),
        ("--lake", lake, "--markdown", tmp_path / "no" / "p.md"): (5, "p.md"),
    }
    for words, (code, sentence) in cases.items():
        done = ackloss("lake", "report", *words)
        assert done.exit_code == code, (words, done.output)
        assert sentence in done.stderr, words
        assert (done.stdout, len(done.stderr.splitlines())) == ("", 1), words
    assert ackloss("lake", "report").exit_code == 2
    assert ackloss("lake", "report", "--lake", lake, "--html", tmp_path).exit_code == 2


def test_a_damaged_or_missing_file_is_one_sentence(lake: Path) -> None:
    part = Path(open_lake(lake).files(CELLS)[0])
    part.write_bytes(b"x" * part.stat().st_size)
    for _ in ("damaged", "missing"):
        done = ackloss("lake", "report", "--lake", lake)
        assert done.exit_code == 4
        assert done.stderr.startswith(f"ackloss: {lake}: a file of this lake is missing or damaged")
        assert len(done.stderr.splitlines()) == 1
        part.unlink(missing_ok=True)
