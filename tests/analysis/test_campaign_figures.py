"""The figures of a campaign, for any outcome."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Annotation, Text

from analysis import drawing
from analysis.campaign import CampaignDocument, RunRow, campaign_document, run_rows
from analysis.campaign_figures import drawn, mixed, ranges
from analysis.tables import Matrix, matrix
from checkers.register import Register
from harness.protocols.clusters import SIMULATED
from tests.fixtures.synthetic_campaign import ONE_AXIS, Chances, Synthetic, build_campaign

pytestmark = pytest.mark.slow


def loaded(path: Path, kind: Synthetic) -> tuple[CampaignDocument, Matrix, list[RunRow]]:
    folder, _ = build_campaign(path, kind)
    document = campaign_document(folder)
    keys = [cell.key for cell in document.cells]
    return document, matrix(document.axes, keys), run_rows(folder)


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(Synthetic(runs=3), marks=pytest.mark.full),
        Synthetic(axes=ONE_AXIS, runs=4, finished=0),
        Synthetic(axes="", runs=4),
        Synthetic(axes=ONE_AXIS, runs=4, chances=lambda key: Chances(harness_failure=1)),
    ],
    ids=["36 cells", "nothing run", "one cell", "failures only"],
)
def test_every_campaign_can_be_drawn(tmp_path: Path, kind: Synthetic) -> None:
    document, table, rows = loaded(tmp_path / "campaign", kind)
    for figure in drawn(document, table, rows).values():
        assert ET.fromstring(drawing.svg(figure)).tag.endswith("svg")


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text)]


def test_the_matrix_shows_each_share_and_no_share_without_a_conclusive_run(
    tmp_path: Path,
) -> None:
    chances = {"true": Chances(loss=1), "false": Chances(unknown=1)}
    kind = Synthetic(axes=ONE_AXIS, runs=10, chances=lambda key: chances[key["unclean"]])
    document, table, rows = loaded(tmp_path / "campaign", kind)
    shown = texts(drawn(document, table, rows)["matrix"])
    assert {"100 %", "69.2 to 100 %", "no conclusive run", "10 runs"} <= set(shown)
    assert "0 %" not in shown


@pytest.mark.parametrize("simulated", [True, False])
def test_figures_of_a_simulated_campaign_say_so_and_others_do_not(
    tmp_path: Path, simulated: bool
) -> None:
    document, table, rows = loaded(tmp_path / "campaign", Synthetic(axes=ONE_AXIS, runs=3))
    figures = drawn(replace(document, simulated=simulated), table, rows)
    assert len(figures) == 3
    for figure in figures.values():
        assert (SIMULATED in texts(figure)) is simulated


def test_figures_are_in_the_words_of_the_finding(tmp_path: Path) -> None:
    document, table, rows = loaded(tmp_path / "campaign", Synthetic(axes=ONE_AXIS, runs=9))
    unrated = [{**row, "loss_rate": None} for row in rows]
    figures = drawn(replace(document, finding=Register().primary), table, unrated)
    shown = {name: " ".join(texts(figure)) for name, figure in figures.items()}
    assert "Share of runs with inconsistent registers" in shown["matrix"]
    assert "runs with inconsistent registers, and 95 % interval" in shown["trade-off"]
    assert "runs with inconsistent registers" in shown["distributions"]
    assert not any("los" in text for text in shown.values())


def test_every_conclusive_run_is_a_point(tmp_path: Path) -> None:
    document, table, rows = loaded(tmp_path / "campaign", Synthetic(axes=ONE_AXIS, runs=30))
    figure = drawn(document, table, rows)["distributions"]
    judged = sum(row["class"] in ("loss", "none") for row in rows)
    for panel in figure.axes:
        points = [p for p in panel.collections if hasattr(p, "get_sizes") and len(p.get_sizes())]
        assert sum(len(p.get_offsets()) for p in points) == judged


def test_no_label_crosses_the_edge_of_its_picture(tmp_path: Path) -> None:
    """Every second cell is at the same place, on the right: one label has all their numbers."""
    document, table, rows = loaded(tmp_path / "campaign", Synthetic(runs=3))
    share, cells = document.cells[0].lossy_share, list(document.cells)
    for number, place in enumerate(table.in_order):
        gap = replace(cells[place].longest_gap_s, median=5.0 if number % 2 else 1.0)
        cells[place] = replace(cells[place], lossy_share=share, longest_gap_s=gap)
    figure = drawn(replace(document, cells=cells), table, rows)["trade-off"]
    figure.draw_without_rendering()
    labels = figure.findobj(Annotation)
    assert any("…" in label.get_text() for label in labels)
    for label in labels:
        box = label.get_window_extent()
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, label.get_text()


def test_a_larger_share_is_darker() -> None:
    grey = [float(np.dot(mixed(n / 10), (0.299, 0.587, 0.114))) for n in range(11)]
    apart = np.abs(np.array(grey) - grey[0])
    assert (np.diff(apart) > 0.015).all(), "in black and white too"


def test_neighbouring_numbers_become_a_range() -> None:
    assert ranges([7, 1, 3, 2, 9, 10]) == "1-3, 7, 9, 10"


@pytest.mark.filterwarnings("ignore:Glyph 7")
def test_a_page_holds_text_as_text_whatever_it_is(tmp_path: Path) -> None:
    axis = '[axes.a]\nkey = "name"\nvalues = ["x\\u0007<&\'", "y"]\n'
    document, table, rows = loaded(tmp_path / "campaign", Synthetic(axes=axis, runs=9))
    for name, figure in drawn(document, table, rows).items():
        outlines, embedded = drawing.svg(figure), drawing.svg(figure, outlines=False)
        assert len(embedded) < len(outlines)
        assert b"</text>" not in outlines
        shown = " ".join(ET.fromstring(embedded).itertext())
        if name != "trade-off":
            assert "x\\u0007<&'" in shown


def test_what_a_page_holds_names_each_style_once_and_changes_no_text(tmp_path: Path) -> None:
    name = ' id="a" style="b"'
    axis = f"[axes.a]\nkey = \"about\"\nvalues = ['{name}', 'y']\n"
    document, table, rows = loaded(tmp_path / "campaign", Synthetic(axes=axis, runs=9))
    for kind, figure in drawn(document, table, rows).items():
        embedded = drawing.svg(figure, outlines=False)
        root = ET.fromstring(embedded)
        assert not any("style" in each.attrib for each in root.iter())
        style = root.findtext(".//{*}style") or ""
        used = {name for each in root.iter() for name in each.get("class", "").split()}
        assert used
        assert all(style.count(f".{each}{{") == 1 for each in used)
        referred = set(re.findall(rb"#([\w.-]+)", embedded))
        assert {each.attrib["id"].encode() for each in root.findall(".//*[@id]")} <= referred
        if kind != "trade-off":
            assert name in " ".join(root.itertext())
