"""Bad input: one clear sentence, the documented exit code, nothing left behind, no traceback."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pytest

from ackloss.session import Session
from tests.fixtures.command_line import ackloss
from tests.fixtures.synthetic_campaign import ONE_AXIS, Chances, Synthetic, build_campaign

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PLAN = "plans/kafka-safe.toml"


@pytest.fixture(autouse=True)
def _in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def refused(*args: str, exit_code: int = 4, mistakes: int = 1, **env: str) -> str:
    """The sentences of a refusal, one for each mistake."""
    done = ackloss(*args, **env)
    assert done.exit_code == exit_code, done.stderr
    sentences = done.stderr.strip().splitlines()
    assert len(sentences) == mistakes, done.stderr
    assert all(each.startswith("ackloss: ") for each in sentences)
    return "\n".join(sentences)


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ("topic.partitions=many", "topic.partitions", "'many'"),
        ("target.brokers=2", "topic.replication_factor", "3 replicas need 3 brokers"),
        ("faults.0.at_s=400", "faults.cut.at_s", "before the end of the workload"),
        ("faults.0.nemesis=partitoin", "faults.cut.nemesis", "did you mean 'partition'?"),
        ("faults.0.direction=sideways", "faults.cut.direction", "'in', 'out' or 'both'"),
        ("faults.0.nodes=leeder", "faults.cut.nodes", "did you mean 'leader'?"),
        ("faults.1.nodes=same:heal", "faults.isolate.nodes", "no earlier fault"),
        ("faults.1.when=whenever", "faults.isolate.when", "is not a condition"),
        (
            "workload.name=locks",
            "workload.name",
            "kafka runs: append, consume, metadata, register,",
        ),
        ("ensemble.servers=3", "ensemble", "target.system = 'zookeeper', which has it"),
        ("checks=['los']", "checks.0", "did you mean 'loss'?"),
        ("checks=[{name='los'}]", "checks.0.name", "did you mean 'loss'?"),
        ("checks=[{idempotent_producer=true}]", "checks.0.name", "is missing; add it"),
        ("checks=['loss', {name='loss', limit=3}]", "checks.1.limit", "loss has no option 'limit'"),
        ("checks=['loss', {name='register', states_count=0}]", "checks.1", "states_count"),
        ("checks=['register']", "checks.0", "of the model 'log'; these do: loss"),
        ("target.version=0.7.2", "target.version", "unsupported version"),
        ("target.metadata=zookeeper", "target.metadata", "ended with 3.9"),
        ('target.settings."zookeeper.connect"=x', "target.settings", "refused"),
        ("target.version=4.3.1-rc; rm", "target.version", "0.8.0 to 4.x are known, such as"),
        ('target.settings."advertised.listeners"=x', "target.settings", "refused"),
        ('workload.producer."plugin.library.paths"=x', "workload.producer", "refused"),
        ('workload.producer."ssl.ca.location"=x', "workload.producer", "refused"),
        ("workload.producer.acks=most", 'workload.producer."acks"', "0, 1, -1 or all, not 'most'"),
        ("workload.producer.acks=0.0", 'workload.producer."acks"', "0, 1, -1 or all, not 0.0"),
        ("workload.producer.acks=false", 'workload.producer."acks"', "not False"),
        ("topic.name=../x", "topic.name", "is not allowed here"),
    ],
)
def test_an_invalid_plan_is_refused_with_its_key(change: str, key: str, words: str) -> None:
    sentence = refused("plan", "validate", PLAN, "--set", change)
    assert f"{PLAN}: {key}" in sentence
    assert words in sentence


def test_all_mistakes_of_a_plan_are_reported_at_once_each_at_its_step() -> None:
    """Those of the form first: what depends on a wrong value is not known."""
    form = ("--set", "final.drain_s=-1", "--set", "workload.rate_per_s=fast")
    form += ("--set", "faults.cut.at_s=400", "--set", "faults.isolate.for_s=0")
    done = ackloss("run", PLAN, *form, "--json")
    errors = json.loads(done.stdout)["errors"]
    assert [each["key"] for each in errors] == [
        "workload.rate_per_s",
        "faults.isolate.for_s",
        "final.drain_s",
    ]
    assert json.loads(done.stdout)["error"] == errors[0]

    meaning = ("--set", "workload.name=apend", "--set", "checks=['los','losss']")
    meaning += ("--set", "faults.cut.nodes=leeder", "--set", "faults.isolate.when=whenever")
    meaning += ("--set", "workload.client=jave")
    sentences = refused("plan", "validate", PLAN, *meaning, mistakes=4)
    for key in ("workload.name", "workload.client"):
        assert f"{PLAN}: {key}: " in sentences
    assert f"{PLAN}: faults.cut.nodes: 'leeder' is not a selector" in sentences
    assert f"{PLAN}: faults.isolate.when: 'whenever' is not a condition" in sentences


def test_mistakes_of_several_plans_are_reported_at_once() -> None:
    bad = ("--set", "workload.name=apend")
    sentences = refused("plan", "validate", PLAN, "kafka-kill", *bad, mistakes=2)
    assert "kafka-kill: workload.name" in sentences


def test_what_a_version_does_not_support_is_reported_with_all_keys_and_can_be_forced() -> None:
    old = ("--set", "target.version=0.8.1.1")
    sentences = refused("run", PLAN, *old, mistakes=3)
    assert (
        'topic.settings."unclean.leader.election.enable": the plan requests false, but' in sentences
    )
    assert "Kafka 0.8.1.1 does not have it" in sentences
    assert "KAFKA-1028" in sentences
    assert sentences.count("run it anyway with --force") == 3
    assert 'topic.settings."min.insync.replicas": ' in sentences
    assert 'workload.producer."enable.idempotence": ' in sentences

    forced = ackloss("run", PLAN, *old, "--force", "--dry-run", "--json")
    assert forced.exit_code == 0, forced.stderr
    notes = json.loads(forced.stdout)["plans"][0]["warnings"]
    assert [note.split(":")[0] for note in notes].count("forced") == 3
    assert ackloss("plan", "show", PLAN, *old).exit_code == 0


def test_what_cannot_run_at_all_cannot_be_forced() -> None:
    gone = ("--set", "target.metadata=zookeeper", "--force", "--dry-run")
    sentence = refused("run", PLAN, *gone)
    assert "ZooKeeper mode ended with 3.9" in sentence
    assert "--force" not in sentence


def test_a_broken_file_is_refused_with_its_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text('schema = 1\nname = "x\n')
    assert "line 2" in refused("run", str(broken))
    broken.write_bytes(b"\xff\xfe")
    assert "UTF-8" in refused("run", str(broken))


def test_a_campaign_without_a_history_to_judge_is_refused(tmp_path: Path) -> None:
    """Nothing was judged, so this is not a success."""
    build_campaign(tmp_path / "c", Synthetic(axes=ONE_AXIS, runs=2))
    words = "no run of this campaign has a history to judge"
    assert words in refused("check", str(tmp_path / "c"))
    done = ackloss("check", str(tmp_path / "c"), "--json")
    assert (done.exit_code, words in json.loads(done.stdout)["error"]["what"]) == (4, True)


def test_runs_of_a_campaign_that_are_not_judged_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, _ = build_campaign(tmp_path / "c", Synthetic(axes=ONE_AXIS, runs=2, chances=calm))
    run = sorted(folder.runs.iterdir())[0]
    (run / "history").mkdir()
    judged = {"run_id": run.name, "verdict": "valid", "reason": "", "counts": Counter()}
    monkeypatch.setattr("checkers.judging.many_runs.check_runs", lambda *_, **__: [judged])
    done = ackloss("check", str(folder.path))
    assert done.exit_code == 0
    assert f"3 runs have no history and cannot be judged: {folder.path}" in done.output


def calm(_: object) -> Chances:
    return Chances()


def test_without_docker_the_error_says_so_and_nothing_is_left(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    sentence = refused(
        "run",
        PLAN,
        "-q",
        "--out",
        str(out),
        exit_code=5,
        DOCKER_HOST="unix:///nonexistent/docker.sock",
    )
    assert "Docker does not answer" in sentence
    assert not out.exists()


@pytest.mark.docker
def test_too_little_memory_is_reported_before_anything_starts(tmp_path: Path) -> None:
    args = ("run", PLAN, "-q", "--out", str(tmp_path / "runs"))
    sentence = refused(*args, "--set", "target.memory_mb=16384", exit_code=5)
    assert "memory" in sentence
    assert not (tmp_path / "runs").exists()


@pytest.mark.docker
def test_a_run_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    sentence = refused("run", PLAN, "-q", "--out", str(file), exit_code=5)
    assert str(file) in sentence


@pytest.mark.docker
def test_a_version_that_does_not_exist_is_reported(tmp_path: Path) -> None:
    args = ("run", PLAN, "-q", "--out", str(tmp_path / "runs"))
    sentence = refused(*args, "--set", "target.version=4.99.9")
    assert "target.version" in sentence
    assert "kafka 4.99.9 does not exist" in sentence
    assert not (tmp_path / "runs").exists()


@pytest.mark.docker
def test_an_image_that_cannot_be_pulled_is_reported(tmp_path: Path) -> None:
    plan = tmp_path / "image.toml"
    plan.write_text('schema = 1\nname = "x"\n[target]\nimage = "ackloss-no-such-image:1"\n')
    sentence = refused("run", str(plan), "-q", "--out", str(tmp_path / "runs"), exit_code=5)
    assert "ackloss-no-such-image:1" in sentence


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    assert "run.json" in refused("show", str(tmp_path))
    assert "run.json" in refused("report", str(tmp_path))


def test_as_expected_needs_an_expectation_before_anything_starts(tmp_path: Path) -> None:
    plan = tmp_path / "p.toml"
    plan.write_text('schema = 1\nname = "p"\n[target]\nversion = "4.3.1"\n')
    sentence = refused("run", str(plan), "--as-expected", "--dry-run")
    assert "p.toml: expect: --as-expected needs the key `expect`" in sentence


@pytest.mark.parametrize(
    ("system", "words"),
    [("memory", "nothing has to be made for memory"), ("kafak", "did you mean 'kafka'?")],
)
def test_prepare_refuses_a_system_of_which_nothing_is_made(system: str, words: str) -> None:
    assert words in refused("prepare", system)


def test_version_shows_the_client_libraries_of_targets() -> None:
    versions = json.loads(ackloss("version", "--json").stdout)["versions"]
    libraries = ["confluent-kafka", "kafka-python", "kazoo"]
    assert list(versions) == ["ackloss", "python", *libraries, "pyspark"]


EXEC = ("--set", "workload.client=exec")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (EXEC, "the client 'exec' is a command of yours; name it with --client CMD"),
        (("--client", "python3"), "--set workload.client=exec"),
        ((*EXEC, "--client", ""), "--client: the command is empty"),
        ((*EXEC, "--client", "no-such-client x"), "--client: there is no command 'no-such-client'"),
        ((*EXEC, "--client", "/etc/passwd"), "'/etc/passwd' is not executable; chmod +x"),
        ((*EXEC, "--client", "python3 'x"), "close the quotes"),
        (("--set", "workload.client=exce"), "kafka has no client 'exce'"),
        ((*EXEC, "--client", "true", "--set", "workload.producer.acks=2"), "0, 1, -1 or all"),
    ],
)
def test_clients_of_the_user_are_refused_before_anything_starts(
    options: tuple[str, ...], words: str
) -> None:
    assert words in refused("run", PLAN, *options)


def test_a_client_of_the_user_is_accepted_where_it_can_be_run() -> None:
    done = ackloss("run", PLAN, *EXEC, "--client", f"{sys.executable} -c pass", "--dry-run")
    assert done.exit_code == 0, done.stderr


@pytest.mark.parametrize("client", ["exec", "librdkafka"])
def test_a_system_without_clients_of_this_name_refuses_it(client: str) -> None:
    sentence = refused("run", "plans/memory/log.toml", "--set", f"workload.client={client}")
    assert f"memory has no client {client!r}" in sentence


def test_a_plan_for_clients_of_the_user_is_valid_without_a_command() -> None:
    assert ackloss("plan", "validate", "plans/clients/lose.toml").exit_code == 0


def test_a_command_is_never_in_a_plan() -> None:
    sentence = refused("run", PLAN, *EXEC, "--set", "workload.command=rm", "--client", "true")
    assert "workload.command" in sentence


def test_the_command_of_a_run_names_its_client() -> None:
    assert Session(client="./c --x").command(Path("p"))[-2:] == ["--client", "./c --x"]


def test_a_campaign_with_clients_of_the_user_needs_the_command(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    plan = ROOT / "plans/clients/lose.toml"
    file.write_text(f'schema = 1\nname = "c"\nplan = "{plan}"\nrepetitions = 1\n')
    out = str(tmp_path / "out")
    sentence = refused("campaign", "run", str(file), "--out", out)
    assert "name it with --client CMD" in sentence
    assert not (tmp_path / "out").exists()


def test_a_mistake_in_a_cell_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "cells.toml"
    text = (ROOT / "plans/memory/cells.toml").read_text(encoding="utf-8")
    file.write_text(text.replace("target.min_insync = 2", "workload.options.zz = 1"))
    sentence = refused("plan", "validate", str(file))
    assert sentence.startswith(f"ackloss: {file}: cells.3.workload.options.zz: append has no opt")


@pytest.mark.parametrize(
    ("verb", "kind"),
    [
        (("run",), "plan"),
        (("plan", "validate"), "plan"),
        (("plan", "show"), "plan"),
        (("campaign", "run"), "campaign"),
        (("campaign", "plan"), "campaign"),
    ],
)
def test_an_empty_name_is_not_this_folder(verb: tuple[str, ...], kind: str) -> None:
    done = ackloss(*verb, "", COLUMNS="200")
    assert done.exit_code == 2
    assert f"the name of a {kind} is empty" in done.stderr
    assert f"`ackloss list {kind}s`" in done.stderr


def test_a_campaign_is_not_run_as_a_plan() -> None:
    sentence = refused("run", "campaigns/nightly.toml")
    assert sentence.startswith("ackloss: campaigns/nightly.toml: is a campaign, not a plan")
    assert "`ackloss campaign run`" in sentence


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///nope/y", "not a run folder: run.json is missing"),
        ("file://host/y", "this URL cannot be used: Unsupported hostname"),
        ("foo://x/y", "nothing here reads the scheme 'foo'"),
    ],
)
def test_a_url_that_names_no_run_is_named(url: str, words: str) -> None:
    assert refused("check", url).startswith(f"ackloss: {url}: {words}")
