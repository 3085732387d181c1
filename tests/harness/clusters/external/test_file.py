"""The file that says how a cluster is reached: what it may hold, and the errors about what it may
not. A value that might be a secret is never quoted."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.clusters.external import ClusterFile, External, access_of, read_cluster_file
from harness.errors import EnvironmentFailure, PlanError
from harness.machine import state
from harness.run.resolving import cluster_provider

HEAD = 'kind = "external"\nbootstrap = ["broker-1.example.com:9093", "[::1]:9093"]\n'


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "theirs.toml"
    path.write_text(text)
    return path


def test_secrets_are_found_and_shown_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THEIR_PASSWORD", "pw-of-env")
    (tmp_path / "key.password").write_text("pw of file \n")
    text = HEAD + (
        "[client]\n"
        '"sasl.username" = "me"\n'
        '"sasl.password" = { env = "THEIR_PASSWORD" }\n'
        '"ssl.key.password" = { file = "key.password" }\n'
    )
    path = written(tmp_path, text)
    access = access_of(read_cluster_file(path, ClusterFile), path)
    assert access.addresses == ("broker-1.example.com:9093", "[::1]:9093")
    assert access.properties == {"sasl.username": "me"}
    assert {name: secret.reveal() for name, secret in access.secrets.items()} == {
        "sasl.password": "pw-of-env",
        "ssl.key.password": "pw of file ",
    }
    for shown in (repr(access), str(access.secrets["sasl.password"]), f"{access}"):
        assert "pw" not in shown


@pytest.mark.parametrize(
    ("text", "key", "what"),
    [
        ("-----BEGIN", None, "the cluster file cannot be read"),
        ('kind = "externl"\nbootstrap = ["a:1"]', "kind", "'externl' is not allowed"),
        ('bootstrap = ["a:1"]', "kind", "is missing"),
        ('kind = "external"', "bootstrap", "is missing"),
        ('kind = "external"\nbootstrap = []', "bootstrap", "is not allowed"),
        (
            'kind = "external"\nbootstrap = ["broker"]',
            "bootstrap.0",
            "not an address with a port; write it as",
        ),
        (HEAD + "bootstap = 3", "bootstap", "did you mean 'bootstrap'"),
        (HEAD + '[client]\n"sasl.password" = ["pw"]', 'client."sasl.password"', "is neither text"),
        (HEAD + '[client]\n"sasl.password" = {}', 'client."sasl.password"', "is neither text"),
        (
            HEAD + '[client]\n"sasl.password" = { env = "A", file = "pw" }',
            'client."sasl.password"',
            "is neither text",
        ),
        (HEAD + '[client]\n"no name" = "pw"', 'client."no name"', "is not the name of a property"),
    ],
)
def test_a_wrong_file_is_one_sentence_that_quotes_no_value(
    tmp_path: Path, text: str, key: str | None, what: str
) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PlanError) as refused:
        read_cluster_file(path, ClusterFile)
    assert what in str(refused.value)
    assert refused.value.key == key
    assert refused.value.file == str(path)
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    ("reference", "what"),
    [
        ('{ env = "NOT_SET_ANYWHERE" }', "the environment variable NOT_SET_ANYWHERE is not set"),
        ('{ file = "no-such-file" }', "no-such-file cannot be read: No such file"),
        ('{ file = "empty" }', "empty is empty"),
        ('{ file = "binary" }', "binary cannot be read: it is not UTF-8 text"),
    ],
)
def test_a_secret_that_is_not_there_is_what_this_machine_lacks(
    tmp_path: Path, reference: str, what: str
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    path = written(tmp_path, f'{HEAD}[client]\n"sasl.password" = {reference}')
    with pytest.raises(EnvironmentFailure) as refused:
        cluster_provider(path)
    assert what in str(refused.value)
    assert refused.value.key == 'client."sasl.password"'


def test_an_unknown_system_is_refused_by_the_file_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="did you mean 'kafka'") as refused:
        cluster_provider(written(tmp_path, HEAD + 'system = "kafkaa"'))
    assert refused.value.key == "system"


def test_a_dead_run_concerns_the_cluster_that_it_was_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path / "state"))
    kind = External().with_file(written(tmp_path, HEAD))

    def remember(run_id: str, file: str, address: str) -> None:
        entry = {"cluster": file, "addresses": [address], "system": "kafka", "objects": []}
        state.remember_cluster("external", run_id, entry)

    remember("same-file", str(tmp_path / "theirs.toml"), "old:1")
    remember("same-address", "/moved.toml", "broker-1.example.com:9093")
    remember("another", "/another.toml", "another:9093")
    runs = ("same-file", "same-address", "another", "never-begun")
    assert [run for run in runs if kind.concerns(run)] == [
        "same-file",
        "same-address",
        "never-begun",
    ]
