"""The plan: one TOML file that states everything about a run, validated before anything starts.

A plan is data and may come from a stranger while the tool runs as root: it can name no command, no
host path, no device, no port of the host and no address outside its own cluster. Names are checked
here; what a plug-in's own options may be is checked where plug-ins are known (`harness.registry`).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, ClassVar, Final, Literal, Self

import orjson
from pydantic import (
    AfterValidator,
    Field,
    StringConstraints,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from harness import registry
from harness.errors import PlanError
from harness.plan.steps import (
    Family,
    FaultStep,
    Image,
    Mix,
    OpenSection,
    Option,
    Scalar,
    Section,
    Settings,
    Slug,
    Version,
    drawn,
)
from harness.wrong_values import dotted

# Cells: several settings under one fault. Each is a separate object in the system, such as a
# topic, with its own settings and clients; all of them meet the same faults at the same instant.
#
# A cell is a plan with some keys changed. The target decides which keys it may change
# (`Target.cell_keys`); `harness.run.cells` derives the rest.

MOST: Final = 32
"""Cells of one run: each has its own clients, which share one machine."""


class Cell(OpenSection):
    """One cell; other keys are keys of the plan, with other values than the plan has."""

    name: Slug = Field(description="Its name, unique in the plan.")
    expect: Literal["valid", "invalid", "unknown"] | None = Field(
        None, description="The expected verdict of this cell."
    )

    @property
    def overrides(self) -> dict[str, Any]:
        """The keys that it changes, nested as in the plan."""
        return self.options


def check_number(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Raise ValueError for one cell alone, and for too many of them."""
    if len(cells) == 1:
        raise ValueError("one cell alone is a run without cells: add another, or leave it out")
    if len(cells) > MOST:
        raise ValueError(f"a run has at most {MOST} cells, not {len(cells)}: make several plans")
    return cells


def check_names(cells: Sequence[Cell]) -> None:
    """Raise ValueError for two cells of one name."""
    seen: set[str] = set()
    for place, cell in enumerate(cells):
        if cell.name in seen:
            raise ValueError(f"cells.{place}.name: {cell.name!r} names an earlier cell too")
        seen.add(cell.name)


def merged(document: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """A document with some keys changed: tables are merged, all else is replaced."""
    changed = dict(document)
    for key, value in overrides.items():
        before = changed.get(key)
        both = isinstance(before, Mapping) and isinstance(value, Mapping)
        changed[key] = merged(before, value) if both else value  # type: ignore[arg-type]
    return changed


def at(plan: Plan, key: str) -> Any:
    """What a plan has at a key."""
    return reduce(getattr, key.split("."), plan)


def is_default(plan: Plan, key: str) -> bool:
    """Whether it has there what a plan has that leaves this key of a section out."""
    section, _, name = key.rpartition(".")
    return bool(at(plan, key) == type(at(plan, section)).model_fields[name].default)


def keys_of(overrides: Mapping[str, Any]) -> dict[tuple[str, ...], Any]:
    """The values by their keys, each as its parts."""
    found: dict[tuple[str, ...], Any] = {}
    for key, value in overrides.items():
        inner = keys_of(value) if isinstance(value, Mapping) and value else {(): value}
        found |= {(key, *parts): each for parts, each in inner.items()}
    return found


def dotted_keys(overrides: Mapping[str, Any]) -> dict[str, Any]:
    """The values by TOML dotted key: `topic.settings."min.insync.replicas"`."""
    return {dotted(parts): value for parts, value in keys_of(overrides).items()}


# What of a plan is the user's own: what settings files and `--set` gave, key by key.
#
# It stands in the plan, so that it goes wherever the plan goes: into the run's folder, to the
# workers of a campaign, to the page. It changes nothing about what is run, and no digest counts it.

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
        overrulers = Counter(each.why for each in self.of(OVERRULED))
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


# Published figures that a plan names, to be printed beside those of its own runs.
#
# They are only numbers and text: nothing is judged by them, and no verdict changes. The totals of a
# reference must be consistent, as those of a run are (each write is counted once), so a typo in a
# plan is found before anything starts.

Sentence = Annotated[str, StringConstraints(min_length=1, max_length=400)]


class Figures(Section):
    """What was counted; ackloss computes the rates."""

    attempted: int = Field(ge=1, description="Writes that were attempted.")
    acknowledged: int = Field(ge=0, description="Writes that were acknowledged.")
    survivors: int = Field(ge=0, description="Writes that were found at the end.")
    lost: int = Field(ge=0, description="Acknowledged writes that were not found.")
    unacknowledged_found: int = Field(
        ge=0, description="Writes that were found and not acknowledged."
    )

    @model_validator(mode="after")
    def _balanced(self) -> Figures:
        unknown = self.attempted - self.acknowledged
        balanced = self.acknowledged + self.unacknowledged_found == self.survivors + self.lost
        possible = self.lost <= self.acknowledged and self.unacknowledged_found <= unknown
        if not (balanced and possible and unknown >= 0):
            raise ValueError(
                "the totals are not consistent: acknowledged + unacknowledged_found is survivors + "
                "lost, and none of them is more than what it is counted of"
            )
        return self


class Reference(Section):
    """Published figures; reports print them beside those of the plan's own runs."""

    source: str = Field(min_length=1, max_length=120, description="Their source; only text.")
    figures: Figures = Field(description="see [reference.figures]")
    differs: list[Sentence] = Field(
        default_factory=list, max_length=20, description="Sentences: what differed there, and why."
    )


def number_of(version: str) -> tuple[int, ...]:
    """A version to compare with: (3, 9, 2)."""
    return tuple(int(part) for part in version.split("."))


PROCESSES_MOST: Final = 20_000


class ClusterPlan(OpenSection):
    """Where the nodes are; other keys are the options of this kind."""

    kind: Slug = Field(
        "docker",
        description="The kind of cluster: docker, ssh (your hosts), external or compose (your "
        "cluster) or memory (simulated).",
    )


class TargetPlan(Section):
    """The system under test."""

    newest: ClassVar[Sequence[str]] = ()
    """The newest known release of each release line, in order. A version of a plan may leave out
    what follows from them: 3.9 is the newest 3.9."""
    growing_since: ClassVar[str] = ""
    """The first release line that may get releases after `newest` was written."""

    system: Slug = Field(description="The system under test, a plug-in in targets/.")
    version: Version | None = Field(None, description="A released version, such as 4.3.1.")
    image: Image | None = Field(
        None, description="An image that holds the system, used unchanged, instead of a version."
    )
    settings: Settings = Field(
        default_factory=dict, description="Settings of every node of the system."
    )
    memory_mb: int = Field(
        512, ge=256, le=16384, description="Memory limit of each node, in MiB (heap is half)."
    )

    @field_validator("version")
    @classmethod
    def _released(cls, version: str | None) -> str | None:
        """The complete version, refused where its release line has no such release."""
        if version is None or not cls.newest:
            return version
        wanted = number_of(version)
        for newest in map(number_of, reversed(cls.newest)):
            if newest[: len(wanted)] == wanted:
                return ".".join(map(str, newest))
            if newest[:-1] == wanted[:-1]:
                if wanted <= newest or wanted >= number_of(cls.growing_since):
                    return version
                last = ".".join(map(str, newest))
                raise ValueError(f"{version} does not exist: the newest of its line is {last}")
        return version

    @model_validator(mode="after")
    def _one_source(self) -> TargetPlan:
        if self.version and self.image:
            raise ValueError("takes a version or an image, not both")
        return self


class WorkloadPlan(Section):
    """The workload and the clients that run it."""

    name: Slug = Field("append", description="A plug-in in workloads/.")
    client: Slug | None = Field(
        None,
        description="The client library; `exec`: the processes of `ackloss run --client CMD`.",
    )
    processes: int = Field(
        1000,
        ge=1,
        le=PROCESSES_MOST,
        description="Logical clients, each with one operation in flight; by default enough to "
        "keep the rate while each waits for its time-out (if the target knows it).",
    )
    clients: int = Field(3, ge=1, le=64, description="Real clients that the processes share.")
    rate_per_s: float = Field(
        100, ge=0, le=1_000_000, description="Operations per second in total; 0: no limit."
    )
    duration_s: float = Field(40, gt=0, le=86_400, description="Load duration, in seconds.")
    options: dict[str, Option] = Field(default_factory=dict, description="Options of the plug-in.")


class Check(OpenSection):
    """One checker; other keys are its options."""

    name: Slug = Field(description="A plug-in in checkers/.")


class FinalPlan(Section):
    """What happens after the last fault is healed."""

    drain_s: float = Field(
        60, ge=0, le=3600, description="How long to wait for replies to writes in flight."
    )
    settle_s: float = Field(
        60, gt=0, le=3600, description="How long to wait until fully replicated."
    )
    read_s: float = Field(120, gt=0, le=86_400, description="How long the final read may take.")


class Plan(Section):
    """A complete plan, with the sections of the core. A target whose plans have more of them, or
    more keys in these, has its own subclass (`Target.plan`)."""

    schema_: Literal[1] = Field(alias="schema", description="The version of this format: 1.")
    name: str = Field(min_length=1, max_length=200, description="Its name; only text.")
    about: str = Field("", max_length=4000, description="What it shows; only text.")
    seed: int = Field(0, ge=0, lt=2**63, description="Every random choice is drawn from it.")
    expect: Literal["valid", "invalid", "unknown"] | None = Field(
        None, description="The expected verdict; does not change the exit code."
    )
    cluster: ClusterPlan = Field(default_factory=lambda: ClusterPlan())
    target: TargetPlan
    workload: WorkloadPlan = Field(default_factory=lambda: WorkloadPlan())
    faults: list[FaultStep] = Field(default_factory=list)
    schedule: Slug | None = Field(None, description="A named schedule, instead of steps.")
    mix: Mix | None = Field(None, description="Random faults, instead of steps: see [mix].")
    final: FinalPlan = Field(default_factory=lambda: FinalPlan())
    checks: list[Slug | Check] = Field(
        default_factory=list,
        max_length=20,
        description="Checkers by name, or `{ name, option ... }`; by default the one of the "
        "workload's model.",
    )
    reference: list[Reference] = Field(
        default_factory=list,
        max_length=10,
        description="Published figures, to print beside the run's.",
    )
    cells: Annotated[list[Cell], AfterValidator(check_number)] = Field(
        default_factory=list, description="Several settings under one fault: see [[cells]]."
    )
    yours: Yours = Field(
        default_factory=lambda: Yours(),
        description="Written by ackloss: what settings files and `--set` gave. No effect.",
    )

    @property
    def checkers(self) -> list[str]:
        """The names of its checks."""
        return [check if isinstance(check, str) else check.name for check in self.checks]

    @model_validator(mode="after")
    def _possible(self) -> Plan:
        given = [name for name in ("faults", "schedule", "mix") if getattr(self, name)]
        if len(given) > 1 and not self._holds_its_own_draw():
            raise ValueError(f"has {' and '.join(given)}: one of the three says what happens")
        _check_steps(self)
        check_names(self.cells)
        return self

    def _holds_its_own_draw(self) -> bool:
        """Whether the steps are what the mix gives with this seed: so a plan keeps both once it is
        parsed, and judging its run can take into account that these faults were drawn at random."""
        return (
            self.mix is not None
            and not self.schedule
            and self.faults == drawn(self.mix, seed=self.seed, duration_s=self.workload.duration_s)
        )

    @property
    def blocked_s(self) -> float | None:
        """How long an operation may wait until its client gives it up, from which the number of
        processes follows by default; None: it does not follow."""
        return None

    @property
    def partitions(self) -> int:
        """How many logs the workload's values are spread over."""
        return 1

    @property
    def replicas(self) -> int:
        """How many replicas each of them has."""
        return 1

    def faults_of(self, nemesis: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The options of this nemesis' faults by their keys in the plan: of its steps, or of the
        mix of which its steps are drawn."""
        given: list[tuple[str, FaultStep | Family]]
        if self.mix is not None:
            given = [(f"mix.families.{n}", each) for n, each in enumerate(self.mix.families)]
        else:
            given = [(dotted(("faults", each.id)), each) for each in self.faults]
        return ((key, each.options) for key, each in given if each.nemesis == nemesis)

    def upgrades(self) -> Iterator[tuple[str, str, Self]]:
        """The versions that steps give to nodes: the key, what it says, and the plan with that
        version. Raises PlanError for one that is not released."""
        for where, options in self.faults_of("upgrade"):
            key, to = f"{where}.to", str(options.get("to") or "")
            given = {**self.target.model_dump(), "version": to, "image": None}
            try:
                target = type(self.target).model_validate(given)
            except ValidationError:
                hint = f'such as to = "{self.target.newest[-1]}"' if self.target.newest else None
                raise PlanError(f"{to!r} is not a released version", key=key, hint=hint) from None
            yield key, to, self.model_copy(update={"target": target})

    def document(self) -> dict[str, Any]:
        """The plan as JSON data, defaults filled in. A plan without cells does not mention them, so
        its digest is the same as before cells existed."""
        without = {name for name in ("cells", "yours") if getattr(self, name) in ([], Yours())}
        return self.model_dump(mode="json", by_alias=True, exclude=without)

    def digest(self) -> str:
        """A hash that is equal for plans of equal runs."""
        plan = self.model_copy(update={"yours": Yours()})
        body = orjson.dumps(plan.document(), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(body).hexdigest()


def _check_steps(plan: Plan) -> None:
    """Raise ValidationError with all that is wrong between steps."""
    wrong: list[InitErrorDetails] = []
    for place, key, why in _between_steps(plan):
        error = PydanticCustomError("value_error", "{error}", {"error": why})
        wrong.append(InitErrorDetails(type=error, loc=("faults", place, key), input=None))
    if wrong:
        raise ValidationError.from_exception_data("Plan", wrong)


def _between_steps(plan: Plan) -> Iterator[tuple[int, str, str]]:
    """What is wrong between steps: the number of the step, the key, and why."""
    seen: set[str] = set()
    last_s = 0.0
    for place, step in enumerate(plan.faults):
        if step.id in seen:
            yield place, "id", f"{step.id!r} names an earlier step too"
        for healed in step.heal if isinstance(step.heal, list) else []:
            if healed not in seen:
                yield place, "heal", f"no earlier step is named {healed!r}"
        seen.add(step.id)
        if step.at_s is None:
            continue
        if step.at_s >= plan.workload.duration_s:
            why = f"{step.at_s:g} s is not before the end of the workload, workload.duration_s is "
            yield place, "at_s", f"{why}{plan.workload.duration_s:g}"
        if step.at_s < last_s:
            yield place, "at_s", "steps are in the order in which they begin"
        last_s = step.at_s


def plan_model(system: object, *, file: str = "plan") -> type[Plan]:
    """The plan as the named target declares it; `None` is the default target. Raises PlanError for
    a target that is not known."""
    name = registry.default_target() if system is None else system
    if name is None:
        return Plan
    registry.check_name("targets", name, key="target.system", file=file)
    model: type[Plan] = registry.plugins("targets")[str(name)].plan
    return model
