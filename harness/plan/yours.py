"""What of a plan is the user's own: what settings files and `--set` gave, key by key.

It stands in the plan, so that it goes wherever the plan goes: into the run's folder, to the workers
of a campaign, to the page. It changes nothing about what is run, and no digest counts it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal

from pydantic import Field

from harness.plan.steps import Scalar, Section, Slug

USED: Final = "used"
OVERRULED: Final = "overruled"
IGNORED: Final = "not applicable"
UNKNOWN: Final = "unknown"
State = Literal["used", "overruled", "not applicable", "unknown"]


class OwnKey(Section):
    """One key of a file. The value of a key that is not applicable or unknown is nowhere kept: it
    may be a secret."""

    key: str = Field(max_length=200, description="Its name.")
    state: State = Field(
        description="used; overruled; not applicable: something else than this file decides it; "
        "unknown: this version has no such setting, or nothing replaced a mark in its value."
    )
    value: Scalar | None = Field(None, description="Its value, if it is used or overruled.")
    places: list[str] = Field(default_factory=list, description="The keys of the plan it sets.")
    why: str = Field("", description="Who overruled it, why it is ignored, or how it is used.")

    @property
    def shown(self) -> str:
        """Its value as files have it."""
        return str(self.value).lower() if isinstance(self.value, bool) else str(self.value)


class OwnFile(Section):
    """One file of settings, or another source of them, and what came of its keys."""

    option: Slug = Field(description="The option that names it.")
    file: str = Field("", description="The file.")
    keys: list[OwnKey] = Field(default_factory=list, description="Its keys.")

    def of(self, state: State) -> list[OwnKey]:
        """Those of its keys."""
        return [each for each in self.keys if each.state == state]

    @property
    def grouped(self) -> list[tuple[tuple[State, str], list[OwnKey]]]:
        """Its keys by state and reason: those that are not used first."""
        groups: dict[tuple[State, str], list[OwnKey]] = {}
        for each in sorted(self.keys, key=lambda key: key.state == USED):
            groups.setdefault((each.state, each.why), []).append(each)
        return list(groups.items())

    @property
    def summary(self) -> str:
        """How many keys are used, and how many are not, in words."""
        counts = [f"{len(self.of(USED))} {'key' if len(self.of(USED)) == 1 else 'keys'} used"]
        overrulers: dict[str, int] = {}
        for each in self.of(OVERRULED):
            overrulers[each.why] = overrulers.get(each.why, 0) + 1
        counts += [f"{count} overruled by {who}" for who, count in overrulers.items()]
        counts += [f"{n} {state}" for state in (IGNORED, UNKNOWN) if (n := len(self.of(state)))]
        return ", ".join(counts)


class Yours(Section):
    """What the command line gave."""

    set: list[str] = Field(default_factory=list, description="Keys that `--set` changed.")
    files: list[OwnFile] = Field(default_factory=list, description="Files of settings.")
    expected: str | None = Field(
        None, description="What the plan expected before these files changed what it is about."
    )
    longer_s: float = Field(
        0, description="By how much longer time-outs make waits longer than the plan has them."
    )
    lengthened: bool = Field(False, description="Whether the waits of this plan are that already.")

    def by_place(self) -> dict[str, tuple[OwnFile, OwnKey]]:
        """Each key of the plan that a file set, with that file and its key; it may be overruled in
        some cells."""
        return {p: (file, key) for file in self.files for key in file.keys for p in key.places}


def sentences(yours: Yours) -> Iterator[str]:
    """What came of each file, in lines: what is not used comes first."""
    for file in yours.files:
        yield f"{file.file or f'--{file.option}'}: {file.summary}"
        for (state, why), keys in file.grouped:
            link = " by " if state == OVERRULED else ", " if why else ""
            values = [
                each.key + ("" if each.value is None else f" = {each.shown}") for each in keys
            ]
            yield f"  {state}{link}{why}: {', '.join(values)}"
    if yours.longer_s:
        yield f"time-outs are longer, so each wait of the plan is {yours.longer_s:g} s longer"
    if yours.expected:
        yield f"expected: nothing; the plan expects {yours.expected} of its own settings"
