"""The campaign file: its cells, its seeds, and the errors for invalid files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.campaigns.loading import load_campaign
from harness.campaigns.plan import Campaign
from harness.campaigns.scheduler import Order, estimate
from harness.errors import PlanError
from tests.fixtures.campaign_folder import BASE
from tests.fixtures.command_line import ackloss

AXES = """
[axes.unclean]
key = 'topic.settings."unclean.leader.election.enable"'
values = [true, false]
[axes.min_isr]
key = 'topic.settings."min.insync.replicas"'
values = [1, 2]
[axes.faults.choices.kill]
set = { faults = [{ id = "k", at_s = 2, nemesis = "kill", for_s = 2 }] }
[axes.faults.choices.storm]
repetitions = 1
set = { schedule = "storm", "workload.duration_s" = 60 }
"""


def campaign(
    folder: Path, text: str, *, head: str = "repetitions = 3", base: str = BASE
) -> Campaign:
    (folder / "base.toml").write_text(base)
    file = folder / "c.toml"
    file.write_text(f'schema = 1\nname = "c"\nplan = "base.toml"\n{head}\n{text}')
    return load_campaign(file)


def test_its_cells_are_all_combinations_with_their_own_plans(tmp_path: Path) -> None:
    cells = campaign(tmp_path, AXES).cells
    assert len(cells) == 8
    assert cells[0].key == {"unclean": "true", "min_isr": "1", "faults": "kill"}
    assert cells[0].name == "unclean=true, min_isr=1, faults=kill"
    assert [cell.repetitions for cell in cells] == [3, 1] * 4
    settings = [cell.resolved.plan.topic.settings for cell in cells[::2]]
    assert settings == [
        {"unclean.leader.election.enable": unclean, "min.insync.replicas": least}
        for unclean in (True, False)
        for least in (1, 2)
    ]
    assert [cell.resolved.plan.workload.duration_s for cell in cells[:2]] == [10, 60]
    assert cells[0].resolved.steps[0].nemesis is not None


def test_no_axes_is_one_cell(tmp_path: Path) -> None:
    (cell,) = campaign(tmp_path, "").cells
    assert cell.key == {}
    assert cell.name == "the plan as it is"


def test_combinations_can_be_excluded(tmp_path: Path) -> None:
    left_out = '[[exclude]]\nunclean = true\nmin_isr = [2]\n[[exclude]]\nfaults = "storm"\n'
    names = [cell.name for cell in campaign(tmp_path, AXES + left_out).cells]
    assert names == [
        "unclean=true, min_isr=1, faults=kill",
        "unclean=false, min_isr=1, faults=kill",
        "unclean=false, min_isr=2, faults=kill",
    ]


def test_the_same_file_gives_the_same_seeds_and_another_does_not(tmp_path: Path) -> None:
    first, again = campaign(tmp_path, AXES), campaign(tmp_path, AXES)
    more = campaign(tmp_path, AXES, head="repetitions = 9")
    other = campaign(tmp_path, AXES, head="seed = 1")
    assert [first.seed(n) for n in range(5)] == [again.seed(n) for n in range(5)]
    assert [first.seed(n) for n in range(5)] == [more.seed(n) for n in range(5)]
    assert len({first.seed(n) for n in range(100)} | {other.seed(n) for n in range(100)}) == 200


def test_the_seeds_of_stored_campaigns_stay(tmp_path: Path) -> None:
    """A campaign is known by a hash of its axes, which have had more keys since."""
    given = campaign(tmp_path, AXES)
    assert given.digest == "d9a471169d6fea7e2232096fe58a19aea3119f14c34f593d629f72cd59514c2c"
    shared = campaign(
        tmp_path, AXES.replace("values = [1, 2]", 'values = [1, 2]\nshare = "always"')
    )
    assert shared.digest == given.digest
    kill = "[axes.faults.choices.kill]"
    alone = campaign(tmp_path, AXES.replace(kill, f"{kill}\nshare = 'never'"))
    assert alone.plan.axes["faults"].choices["kill"].share == "never"
    assert alone.digest == given.digest


def test_a_mix_is_drawn_again_for_every_run(tmp_path: Path) -> None:
    mix = '[mix]\nmean_gap_s = 1\nfrom_s = 0\ncalm_s = 2\nfamilies = [{ nemesis = "kill" }]\n'
    (cell,) = campaign(tmp_path, "", base=BASE + mix).cells
    assert "mix" in cell.document
    assert "faults" not in cell.document


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [
        ("[axes.a]\nkey = 'topic.partitions'", "axes.a", "needs a key and at least one value"),
        ("[axes.a]\nkey = 'x'\nvalues = [1, 1]", "axes.a", "same value twice"),
        ("[axes.a]\nkey = 'topic.partition'\nvalues = [1]", "topic.partition", "unknown key"),
        ("[[exclude]]\nb = 1", "exclude.0.b", "no axis has this name"),
        (AXES + "[[exclude]]\nmin_isr = 4", "exclude.0.min_isr", "not one of its values"),
        (
            "[axes.a]\nkey = 'topic.partitions'\nvalues = [1]\n[[exclude]]\na = 1",
            "exclude",
            "every",
        ),
        ("[policy]\nfail_on = 'some'", "policy.fail_on", "not allowed here"),
        ("[budget]\nhuors = 3", "budget.huors", "unknown key"),
        ("[axes.a]\nkey = 'schema..x'\nvalues = [1]", "axes.a", "not a TOML key"),
    ],
)
def test_an_error_names_its_place(tmp_path: Path, text: str, key: str, what: str) -> None:
    with pytest.raises(PlanError) as raised:
        campaign(tmp_path, text)
    assert raised.value.file == str(tmp_path / "c.toml")
    assert raised.value.key == key
    assert what in raised.value.what


def test_an_invalid_cell_is_named(tmp_path: Path) -> None:
    text = "[axes.copies]\nkey = 'topic.replication_factor'\nvalues = [3, 5]\n"
    with pytest.raises(PlanError, match=r"5 brokers.*\(in the cell copies=5\)"):
        campaign(tmp_path, text)


def test_a_missing_base_plan(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text('schema = 1\nname = "c"\nplan = "none.toml"\n')
    with pytest.raises(PlanError, match="there is no file"):
        load_campaign(file)


VERSIONS = """
[axes.version]
key = "target.version"
values = ["0.8.1.1", "0.8.2.2"]
[axes.unclean]
key = 'topic.settings."unclean.leader.election.enable"'
values = [true, false]
"""
OLD_SAFE = "version=0.8.1.1, unclean=false"


def test_a_cell_that_its_version_does_not_support_is_never_run(tmp_path: Path) -> None:
    given = campaign(tmp_path, VERSIONS)
    why = {cell.name: cell.impossible for cell in given.cells if cell.impossible}
    assert list(why) == [OLD_SAFE]
    assert "unclean leader election is always on" in why[OLD_SAFE]
    assert [cell.repetitions for cell in given.cells] == [3, 0, 3, 3]
    assert estimate(given, workers=1).runs == 9
    order = Order([(cell,) for cell in given.possible], {cell.name: 1 for cell in given.possible})
    names = {order.next(None, []).cells[0].name for _ in range(len(order))}  # type: ignore[union-attr]
    assert names == {cell.name for cell in given.cells} - {OLD_SAFE}


def test_a_campaign_of_only_such_cells_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"no cell can be run: .*KAFKA-1028") as raised:
        campaign(tmp_path, VERSIONS.replace(', "0.8.2.2"', "").replace("true, ", ""))
    assert raised.value.key == "axes"


def test_workers_without_a_run_make_nothing_faster(tmp_path: Path) -> None:
    given = campaign(tmp_path, "")
    (cell,) = given.possible
    done = [(cell.name, n) for n in range(1, cell.repetitions)]
    one = estimate(given, done, workers=1)
    assert (one.runs, one.executions) == (1, 1)
    assert one.seconds > 0
    assert estimate(given, done, workers=8).seconds == one.seconds
    assert estimate(given, [*done, (cell.name, 0)], workers=8).seconds == 0


def test_an_estimate_states_when_the_budget_ends_a_session(tmp_path: Path) -> None:
    free = estimate(campaign(tmp_path, ""), workers=1)
    assert free.session_s == free.seconds > 36
    tight = estimate(campaign(tmp_path, "[budget]\nhours = 0.01"), workers=1)
    assert (tight.session_s, tight.seconds) == (36, free.seconds)
    done = ackloss("campaign", "plan", tmp_path / "c.toml")
    assert "(its budget allows about 1 min a session) on " in done.stdout


def test_the_command_line_marks_what_is_impossible(tmp_path: Path) -> None:
    campaign(tmp_path, VERSIONS)
    done = ackloss("campaign", "plan", tmp_path / "c.toml")
    *possible, why, impossible, sharing, total = done.stdout.splitlines()
    assert [line.split()[0] for line in possible] == ["3"] * 3
    assert why.startswith("  impossible, not run: topic.settings")
    assert impossible.strip() == OLD_SAFE
    assert sharing == "shared runs: not along version, unclean"
    assert "4 cells, 1 of them impossible, 9 runs" in total
    cells = json.loads(ackloss("campaign", "plan", tmp_path / "c.toml", "--json").stdout)["cells"]
    assert [(cell["runs"], bool(cell["impossible"])) for cell in cells] == [
        (3, False), (0, True), (3, False), (3, False),
    ]  # fmt: skip


@pytest.mark.parametrize("file", sorted(Path("campaigns").glob("*.toml")), ids=lambda f: f.stem)
def test_shipped_campaigns_can_be_run(file: Path) -> None:
    given = load_campaign(file)
    assert given.cells
    assert given.plan.about
    assert given.plan.name == file.stem


TWO_CHOICES = """
[axes.a.choices]
none.set = {}
two.set = { "topic.partitions" = 2 }
"""


BROKERS = '[axes.b]\nkey = "target.brokers"\nvalues = [2]'
OTHER = f'schema = 1\nname = "d"\nplan = "base.toml"\n{TWO_CHOICES}'


@pytest.mark.parametrize(
    ("axes", "base", "file", "key", "what"),
    [
        ("", f"{BASE}\n[targett]\nx = 1\n", "base.toml", "targett", "unknown key"),
        (TWO_CHOICES, f"{BASE}\n[targett]\nx = 1\n", "base.toml", "targett", "unknown key"),
        (TWO_CHOICES.replace("topic.", "topik."), BASE, "c.toml", "topik",
         r"unknown key \(in the cell a=two\)"),
        (BROKERS, BASE, "c.toml", "topic.replication_factor", r".*\(in the cell b=2\).*"),
        (BROKERS, OTHER, "base.toml", None, "is a campaign, not a plan"),
    ],
    ids=["base", "base-with-axes", "choice", "choice-that-the-base-does-not-fit", "campaign"],
)  # fmt: skip
def test_a_mistake_names_the_file_that_it_is_in_and_the_cell(
    tmp_path: Path, axes: str, base: str, file: str, key: str | None, what: str
) -> None:
    with pytest.raises(PlanError) as refused:
        campaign(tmp_path, axes, base=base)
    assert (refused.value.file, refused.value.key) == (str(tmp_path / file), key)
    assert re.fullmatch(what, refused.value.what)


@pytest.mark.parametrize(
    ("axes", "key"),
    [
        ('[axes.a]\nkey = "seed"\nvalues = [1, 2]', "axes.a.key"),
        ("[axes.a.choices.x]\n[axes.a.choices.y.set]\nseed = 4", "axes.a.choices.y.set.seed"),
        ('[axes.a.choices."4.3.1"]\nset = { \'"seed"\' = 4 }', 'axes.a.choices."4.3.1".set.seed'),
    ],
)
def test_an_axis_that_sets_the_seed_is_refused(axes: str, key: str, tmp_path: Path) -> None:
    """It would have no effect: the nth run of every cell has the same seed."""
    with pytest.raises(PlanError, match="sets the seed, but the nth run of every cell") as refused:
        campaign(tmp_path, axes)
    assert (refused.value.file, refused.value.key) == (str(tmp_path / "c.toml"), key)


@pytest.mark.parametrize(
    ("head", "key", "wanted"),
    [
        ('repetitions = "3"', "repetitions", "use an integer"),
        ("[policy]\nshare = false", "policy.share", "use a number"),
    ],
)
def test_text_and_truth_values_are_not_numbers(
    head: str, key: str, wanted: str, tmp_path: Path
) -> None:
    with pytest.raises(PlanError, match="is not allowed here") as refused:
        campaign(tmp_path, "", head=head)
    assert (refused.value.key, refused.value.hint) == (key, wanted)
