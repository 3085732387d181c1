"""A system that hosts have already, used as it is installed there: nothing of it is uploaded, and
nothing below its folders is written, as nodes see them read-only."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from harness.clusters.ssh.host import Host
from harness.clusters.ssh.inventory import Installed, Inventory
from harness.clusters.ssh.shell import PATH
from harness.errors import EnvironmentFailure, PlanError
from harness.protocols import Distribution, Ingredients

_JAVA = "java"


@dataclass(frozen=True, kw_only=True)
class Installation:
    """Where a system is on the hosts of an inventory, and what it has to be there."""

    system: str
    version: str
    paths: Installed
    distribution: Distribution
    file: Path

    @property
    def image(self) -> str:
        """What a run's metadata has in place of an image."""
        return f"{self.system} {self.version} as installed in {self.paths.home}"

    @property
    def programs(self) -> frozenset[str]:
        """Programs that the host need not have in its PATH."""
        return frozenset({_JAVA} if self.paths.java_home else ())

    @property
    def environment(self) -> dict[str, str]:
        """What its process is given so that it finds its Java."""
        java = self.paths.java_home
        return {"JAVA_HOME": java, "PATH": f"{java}/bin:{PATH}"} if java else {}

    @property
    def places(self) -> list[tuple[str, str]]:
        """Folders on the host by where a node sees them, read-only: what contains others first."""
        own = [path for path in (self.paths.home, self.paths.java_home) if path]
        return [*((path, path) for path in own), (self._files, self.distribution.inside)]

    @property
    def _files(self) -> str:
        return f"{self.paths.home}/{self.distribution.folder}"

    def require(self, host: Host) -> None:
        """Raise EnvironmentFailure unless the host has it, in the version of the plan."""
        java = self.paths.java_home
        if java and host.admin(["test", "-x", f"{java}/bin/java"]).exit_code:
            raise self._wrong(host, f"has no {java}/bin/java", "java_home")
        listed = host.admin(["sh", "-c", f"cd {shlex.quote(self._files)} && ls"])
        if listed.exit_code:
            raise self._wrong(host, f"has no folder {self._files}", "home")
        named = re.compile(self.distribution.named)
        found = {
            match[1] for name in listed.output.splitlines() if (match := named.fullmatch(name))
        }
        if not found:
            raise self._wrong(host, f"has no {self.system} in {self._files}", "home")
        if found != {self.version}:
            versions = " and ".join(sorted(found))
            what = f"has {self.system} {versions} in {self.paths.home}, not {self.version}"
            raise self._wrong(
                host, what, "home", hint=f'set target.version = "{sorted(found)[0]}" in the plan'
            )

    def _wrong(
        self, host: Host, what: str, key: str, *, hint: str | None = None
    ) -> EnvironmentFailure:
        return EnvironmentFailure(
            f"{host.where} {what}",
            file=str(self.file),
            key=f"systems.{self.system}.{key}",
            hint=f"{hint}, or correct it" if hint else "correct it",
        )


def installation(
    inventory: Inventory, file: Path, system: str, made: Ingredients
) -> Installation | None:
    """How the plan's system is installed, if the inventory says so. Raises PlanError when this
    version cannot be used as it is installed."""
    paths = inventory.systems.get(system)
    if paths is None or not paths.installed:
        return None
    image = made.image
    if made.distribution is None or image.version is None:
        raise PlanError(
            f"{system} {image.version or ''} cannot be used as it is installed".replace("  ", " "),
            file=str(file),
            key=f"systems.{system}",
            hint="leave it out: then it is uploaded",
        )
    return Installation(
        system=system,
        version=image.version,
        paths=paths,
        distribution=made.distribution,
        file=file,
    )
