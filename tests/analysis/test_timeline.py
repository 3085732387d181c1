"""The timeline of a synthetic run whose events are known."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from analysis import drawing, figures
from analysis.drawing import DARK, LIGHT
from analysis.timeline import Timeline, on_one_scale, timeline
from tests.fixtures import synthetic_run as synthetic
from tests.fixtures.synthetic_run import Story, build

pytestmark = pytest.mark.slow

NODES = ["b1", "b2", "b3"]


@pytest.fixture(scope="module")
def unclean(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    return timeline(build(tmp_path_factory.mktemp("runs"), Story()), nodes=NODES)


@pytest.fixture(scope="module")
def safe(tmp_path_factory: pytest.TempPathFactory) -> Timeline:
    story = Story(name="safe", unclean=False, verdict="valid")
    return timeline(build(tmp_path_factory.mktemp("runs"), story), nodes=NODES)


def test_the_events_of_the_run_are_found(unclean: Timeline) -> None:
    assert unclean.total["lost"] == 842
    assert unclean.total["ok"] == 3153
    assert unclean.by_loss == [0, 1, 2], "the partition with losses comes first"
    views = unclean.leadership.views
    led = views[views["partition"] == 0]
    assert list(dict.fromkeys(led["leader"])) == ["b3", "b1"]
    belief = unclean.leadership.beliefs.iloc[0]
    assert belief["node"] == "b3"
    assert belief["from_s"] == synthetic.ELECTED_S
    assert belief["to_s"] == pytest.approx(synthetic.BACK_S, abs=0.3)
    assert [fault.id for fault in unclean.drawn_faults] == ["cut", "isolate"]
    assert unclean.bars["lost"].sum() == 842
    assert unclean.bars["attempted"].sum() == 4000
    assert unclean.nodes == NODES


def test_the_axis_ends_where_the_run_does(unclean: Timeline) -> None:
    assert unclean.scale.start_s == 0
    assert 40 < unclean.scale.end_s < 45
    low, high = unclean.scale.latency_ms
    assert 0.1 < low < 0.5, "slightly below the fastest write"
    assert 8_000 < high < 12_000, "slightly above the slowest answer"


def test_two_runs_share_their_axes(unclean: Timeline, safe: Timeline) -> None:
    a, b = on_one_scale(unclean, safe)
    assert a.scale == b.scale
    assert a.scale.rate_per_s == max(unclean.scale.rate_per_s, safe.scale.rate_per_s)
    assert a.bars is unclean.bars


def test_an_empty_run_still_has_an_axis(tmp_path: Path) -> None:
    empty = timeline(synthetic.build_interrupted(tmp_path))
    assert sum(empty.total.values()) == 0
    assert (empty.scale.start_s, empty.scale.end_s) == (0, 1)
    assert drawing.svg(figures.draw(empty)).startswith(b"<?xml")


def test_the_picture_is_the_same_for_the_same_run(unclean: Timeline) -> None:
    first, second = (drawing.svg(figures.draw(unclean)) for _ in range(2))
    assert first == second


def test_the_picture_loads_nothing(unclean: Timeline) -> None:
    root = ET.fromstring(drawing.svg(figures.draw(unclean, colours=DARK)))
    links = [
        value
        for node in root.iter()
        for name, value in node.attrib.items()
        if name.endswith("href") or name == "src"
    ]
    assert any(link.startswith("data:image/png") for link in links), "points are rasterised"
    assert all(link.startswith(("#", "data:")) for link in links)
    assert not list(root.iter("{http://www.w3.org/2000/svg}script"))


def test_the_picture_for_mail_is_a_png(unclean: Timeline) -> None:
    figure = figures.draw(unclean, headline="$\\frac{1$ lost\u202e", sentence="<b>\x1b[31m")
    assert drawing.png(figure).startswith(b"\x89PNG")
    assert [text.get_text() for text in figure.texts] == [
        "$\\frac{1$ lost\\u202e",
        "<b>\\u001b[31m",
    ]


def test_both_palettes_have_the_same_names() -> None:
    assert LIGHT.keys() == DARK.keys()
