"""What the command line offers for one system only: abilities of targets, besides runs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

from harness.plan import Plan
from harness.plan.model import OwnKey

PlanOf = TypeVar("PlanOf", bound=Plan, contravariant=True)

Say = Callable[[str], None]


@runtime_checkable
class TakesSettingsFiles(Protocol[PlanOf]):
    """A target that accepts the user's own settings files, in the system's own format. They are
    named on the command line, never in a plan (`harness.run.own_settings`)."""

    settings_files: ClassVar[Mapping[str, str]]
    """The options of `ackloss run` by name, without dashes in front, each with its help."""
    settings_places: ClassVar[Mapping[str, str]]
    """The table of a plan that each group of settings is in (`Target.requested`)."""

    @abstractmethod
    def own_keys(self, plan: PlanOf, option: str, file: Path) -> list[OwnKey]:
        """Every key of a file, by the option that names it: `used` with its value and the keys of a
        plan that it sets, or why it is not. Raises PlanError for a file that cannot be read."""
        ...

    def real_timeouts(self, plan: PlanOf) -> list[OwnKey]:  # noqa: ARG002
        """The system's own time-outs, where a plan or ackloss has shorter ones."""
        return []

    def same_key(self, plan: PlanOf, parts: tuple[str, ...]) -> tuple[str, ...]:  # noqa: ARG002
        """The name that `own_keys` has for a key of a plan that may be written in several ways."""
        return parts

    def reacts_within_s(self, plan: PlanOf) -> float:  # noqa: ARG002
        """How long, with the plan's time-outs, until what a fault leads to has happened."""
        return 0.0


@dataclass(frozen=True, kw_only=True)
class SettingHelp:
    """A setting of a system or of its clients. `place`: the table of a plan that sets it;
    `refused`: why no plan may; `names`: what each client library calls it. `since`, `last`: the
    first and the last version that has it."""

    name: str
    level: str
    place: str
    values: str
    default: str
    since: str | None
    last: str | None
    names: Mapping[str, str]
    refused: str | None
    secret: bool
    help: str

    @property
    def versions(self) -> str:
        """The versions that have it, in words."""
        if self.last is None:
            return f"{self.since}+" if self.since else ""
        return self.last if self.last == self.since else f"{self.since} to {self.last}"


@runtime_checkable
class ListsSettings(Protocol):
    """A target that knows the settings of its system."""

    @abstractmethod
    def listed_settings(self) -> Sequence[SettingHelp]:
        """All of them, for `ackloss list settings`."""
        ...


@runtime_checkable
class MadeBeforehand(Protocol):
    """A target that can prepare a version before a run: what takes long and is kept."""

    default_version: ClassVar[str]

    @abstractmethod
    def check_version(self, version: str, *, key: str) -> None:
        """Raise PlanError for a version that cannot be tested."""
        ...

    @abstractmethod
    def prepare_version(self, version: str, say: Say) -> None:
        """Build what runs of this version need, unless it exists; report what takes long."""
        ...

    @abstractmethod
    def made(self, version: str) -> dict[str, bool]:
        """Whether each of these things exists, by its name for `ackloss doctor`."""
        ...


@runtime_checkable
class UsesPackages(Protocol):
    """A target with client libraries whose versions `ackloss version` shows."""

    packages: ClassVar[tuple[str, ...]]
    """Names of Python packages."""
