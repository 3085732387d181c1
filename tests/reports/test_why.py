"""Why writes were lost, as a page shows it: logs by offset, and few lines."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from harness.history.explanations import Chain
from harness.history.run_folder import RunDir
from harness.protocols import Fact, Prevention
from harness.protocols.explanations import Stretch
from reports.html import _environment
from reports.page import write_report
from reports.why import Story, Why


def story(*logs: tuple[Stretch, ...], partition: int = 0, facts: int = 0) -> Story:
    chain = {"cause": "c", "sentence": "s", "writes": 9, "partition": partition}
    every = tuple(Fact(kind="fault", text=f"t{at}", source="s", at_s=at) for at in range(facts))
    change = (Prevention(key="topic.k", value="2", writes=9, because="b"),)
    chains = tuple(Chain(**chain, logs=each, facts=every, preventions=change) for each in logs)
    return Story(partition, chains, {})


def section(*stories: Story) -> str:
    return str(_environment().get_template("why.html.j2").module.section(Why(stories), None))


SHORT = (Stretch("b1 before", 0, 83, 0), Stretch("b1 before", 83, 900, 0, removed=True))
LONG = (Stretch("b1 before", 0, 83, 0), Stretch("b1 before", 83, 1_136, 0, removed=True))
LEFT = (Stretch("b1, b2 at the end", 0, 83, 0), Stretch("b1, b2 at the end", 83, 300, 1))


def test_each_log_is_drawn_once_the_longest_of_each_node() -> None:
    found = story((*LONG, *LEFT), (*SHORT, *LEFT))
    assert found.logs == {"b1 before": [*LONG], "b1, b2 at the end": [*LEFT]}
    assert found.tones == {0: "survived", 1: "leads"}


def test_epochs_are_in_their_order_and_what_is_of_none_is_named() -> None:
    log = tuple(Stretch("b1", at, at + 1, epoch) for at, epoch in enumerate((None, 10, 2)))
    assert [*story(log).tones] == [2, 10, None]
    assert "epoch not known" in section(story(log))
    assert "not known" not in section(story(LONG))


def test_bars_have_the_colour_of_their_epoch_and_what_was_removed_is_hatched() -> None:
    html = section(story((*LONG, *LEFT)))
    bars = re.findall(r'<rect class="k-(\w+)" x="([\d.]+)" y="0" width="([\d.]+)"', html)
    assert [tone for tone, *_ in bars] == ["survived", "survived", "survived", "leads"]
    assert [round(float(width) * 1.136) for *_, width in bars] == [83, 1_053, 83, 217]
    assert html.count('<rect class="f-removed"') == 1
    assert "b1 before: offsets 0 to 82 of epoch 0, 83 to 1,135 of epoch 0 removed" in html


def test_what_no_log_is_known_of_is_not_drawn() -> None:
    assert "<svg" not in section(story(()))


def test_a_run_of_many_partitions_has_twelve_lines_and_what_to_set() -> None:
    html = section(*(story((), partition=each, facts=20) for each in range(3)))
    shown = html.partition("<details")[0]
    assert shown.count('<li class="') == 12
    assert re.findall(r"Partition \d", shown) == ["Partition 0"], "one partition is open"
    assert "2 more partitions" in html
    assert "--set 'topic.k=2'</code></pre>" in html


def test_a_record_that_states_a_fact_unfolds() -> None:
    fact = Fact(
        kind="elected", text="t", source="metadata offset 3", place="m:3", record="leader 2"
    )
    of = {"cause": "c", "sentence": "s", "writes": 9, "partition": 0}
    html = section(Story(0, (Chain(**of, facts=(fact,)),), {}))
    assert "<summary>metadata offset 3</summary><code><bdi>m:3: leader 2" in html


@pytest.mark.usefixtures("undrawn")
def test_alarms_stand_beside_the_loss(runs: dict[str, RunDir], tmp_path: Path) -> None:
    for name, shown in (("unclean", True), ("safe", False)):
        run = RunDir(Path(shutil.copytree(runs[name].path, tmp_path / name)))
        result = run.read_json(run.result)
        result["alarms"] = [{"rule": "r", "source": "s", "chance": 0.0}]
        run.write_json(run.result, result)
        write_report(run)
        rates = run.report.read_text().partition('id="rates"')[2].partition("</dl>")[0]
        said = "alarms: 0 of 1 rules before the first loss, 0 after, 1 never" in rates
        assert said is shown
