"""Plans and campaigns that come with ackloss are found by name; a file wins over a name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.errors import PlanError
from harness.plan import parsing
from harness.plan.parsing import CAMPAIGNS, PLANS, find, named_files
from tests.fixtures.command_line import ackloss

ROOT = Path(__file__).parents[3]
ALWAYS_VALID = ROOT / "campaigns" / "always-valid.toml"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory: no relative path leads to a shipped file."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("kind", [PLANS, CAMPAIGNS])
def test_every_file_of_the_checkout_has_a_name_and_is_found_by_it(kind: str) -> None:
    files = set((ROOT / kind).rglob("*.toml"))
    assert {file.resolve() for file in named_files(kind).values()} == files
    for name, file in [*named_files(kind).items()][::9]:
        assert find(kind, name) == file


def test_the_last_part_of_a_name_is_enough_where_it_is_unique() -> None:
    full = find(PLANS, "faults/isolate-leader-acks1")
    assert full == find(PLANS, "isolate-leader-acks1")
    assert full.resolve() == ROOT / "plans/faults/isolate-leader-acks1.toml"


@pytest.fixture
def two_storms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Shipped plans of which two have the same last part, and one of these a name at the top."""
    folder = tmp_path / "shipped"
    for name in ("a/storm", "b/storm", "a/calm", "calm"):
        file = folder / f"{name}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'about = "{name}. More."\n', encoding="utf-8")
    monkeypatch.setattr(
        parsing, "shipped", lambda kind: folder if kind == PLANS else tmp_path / "none"
    )
    return folder


def test_a_last_part_that_several_names_have_is_refused(two_storms: Path) -> None:
    with pytest.raises(PlanError, match="several plans have the name 'storm'; use a/storm or b/"):
        find(PLANS, "storm")
    assert find(PLANS, "b/storm") == two_storms / "b/storm.toml"


def test_a_full_name_wins_over_a_last_part(two_storms: Path) -> None:
    assert find(PLANS, "calm") == two_storms / "calm.toml"


def test_each_name_has_the_first_sentence_of_its_description(two_storms: Path) -> None:
    assert parsing.abouts(PLANS) == {
        "calm": "calm.",
        "a/calm": "a/calm.",
        "a/storm": "a/storm.",
        "b/storm": "b/storm.",
    }
    assert parsing.abouts(CAMPAIGNS) == {}


def test_a_file_wins_over_a_name(elsewhere: Path) -> None:
    assert find(PLANS, "kafka-safe").resolve() == ROOT / "plans/kafka-safe.toml"
    (elsewhere / "kafka-safe").mkdir()  # a folder is no plan
    assert find(PLANS, "kafka-safe").resolve() == ROOT / "plans/kafka-safe.toml"
    (elsewhere / "kafka-kill").write_text("schema = 1\n", encoding="utf-8")
    assert find(PLANS, "kafka-kill") == Path("kafka-kill")


@pytest.mark.parametrize("path", ["kafka-safe.toml", "./kafka-safe", "../plans/x", "/plans/x"])
def test_a_path_is_never_taken_for_a_name(path: str) -> None:
    assert find(PLANS, path) == Path(path)


@pytest.mark.parametrize(
    ("verb", "given", "meant"),
    [
        (("run",), "kafka-unclaen", "kafka-unclean"),
        (("plan", "validate"), "strom", "faults/storm"),
        (("plan", "show"), "fault/flip", "faults/flip"),
    ],
)
def test_an_unknown_plan_is_one_sentence_with_the_nearest_name(
    verb: tuple[str, ...], given: str, meant: str
) -> None:
    done = ackloss(*verb, given)
    assert done.exit_code == 4
    assert len(done.stderr.splitlines()) == 1
    assert f"'{given}'" in done.stderr
    assert done.stderr.endswith(f"did you mean {meant!r}?\n")


@pytest.mark.parametrize("verb", ["run", "plan"])
def test_an_unknown_campaign_is_one_sentence_with_the_nearest_name(verb: str) -> None:
    done = ackloss("campaign", verb, "isr-setings")
    assert done.exit_code == 4
    assert done.stderr.endswith("did you mean 'isr-settings'?\n")
    assert ackloss("campaign", verb, "xyzzy").stderr.endswith(
        "`ackloss list campaigns` shows them\n"
    )


def test_a_named_plan_is_the_file_of_the_checkout() -> None:
    by_name = ackloss("plan", "show", "kafka-unclean", "--json")
    by_path = ackloss("plan", "show", str(ROOT / "plans/kafka-unclean.toml"), "--json")
    assert by_name.exit_code == 0
    assert (
        by_name.stdout == by_path.stdout != ackloss("plan", "show", "kafka-safe", "--json").stdout
    )


def test_errors_of_a_named_plan_name_it_as_it_was_given() -> None:
    done = ackloss("plan", "validate", "kafka-safe", "--set", "topic.partitons=3")
    assert done.exit_code == 4
    assert done.stderr.startswith("ackloss: kafka-safe: topic.partitons: ")


def test_a_campaign_of_ones_own_may_name_a_shipped_plan(elsewhere: Path) -> None:
    own = elsewhere / "own.toml"
    text = ALWAYS_VALID.read_text(encoding="utf-8")
    own.write_text(text.replace('"../plans/kafka-safe.toml"', '"kafka-safe"'), encoding="utf-8")
    done = ackloss("campaign", "plan", "own.toml", "--json")
    assert json.loads(done.stdout)["name"] == "always-valid"
    own.write_text(text.replace('"../plans/kafka-safe.toml"', '"kafka-saef"'), encoding="utf-8")
    refused = ackloss("campaign", "plan", "own.toml")
    assert refused.exit_code == 4
    assert refused.stderr.startswith("ackloss: own.toml: plan: ")
    assert "did you mean 'kafka-safe'?" in refused.stderr


def test_the_list_shows_plans_and_campaigns_with_a_line_about_each() -> None:
    document = json.loads(ackloss("list", "--json").stdout)
    for kind in (PLANS, CAMPAIGNS):
        assert list(document[kind]) == list(named_files(kind))
        assert all(document[kind].values())
        printed = ackloss("list", kind).stdout
        assert all(f"  {name} " in printed for name in document[kind])
    assert json.loads(ackloss("list", "nemeses", "--json").stdout)[PLANS] == {}


def test_plug_ins_are_listed_by_section_and_by_words_with_types_in_words() -> None:
    everything = ackloss("list").stdout
    for word in ("None", "| ", "Literal[", "tuple[", "str ", "False", "NoneType"):
        assert word not in re.sub(r"   .*", "", everything), word
    topic = ackloss("list", "targets", "kafka", "topic").stdout
    assert "    [topic]\n      name: text, default ackloss" in topic
    assert "[target]" not in topic
    assert "memory" not in topic.split()
    assert "leaders: spread or one" in topic
    assert "racks: list of text" in ackloss("list", "targets", "racks").stdout
    only = ackloss("list", "plans", "storm").stdout.split()
    assert "faults/storm" in only
    assert "kafka-safe" not in only
    kill = json.loads(ackloss("list", "nemeses", "kill", "--json").stdout)["plugins"]["nemeses"]
    assert kill["kill"]["options"][0]["type"] == "KILL or TERM"
