"""What an image is made of, as data. A changed recipe has another tag, so it is built again."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

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
    client fetches: client, package, version, digest, program (`harness.images.sources`).
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
