"""The plan: one TOML file that says everything about a run, validated before anything starts.

A plan is data and may come from a stranger while the tool runs as root: it can name no command, no
host path, no device, no port of the host and no address outside its own cluster. Names are checked
here; what a plug-in's own options may be is checked where plug-ins are known (`harness.registry`).
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from harness.errors import PlanError
from harness.expansion import concrete, drawn, named_schedule
from harness.plan_changes import apply_change
from harness.plan_errors import explain
from harness.reference_figures import Reference

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")

Scalar = bool | int | float | str
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
Version = Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+){1,3}$")]
Image = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z0-9]+([._/:-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?"
        r"(@sha256:[0-9a-f]{64})?$",
        max_length=255,
    ),
]


def _printable(value: Scalar) -> Scalar:
    if isinstance(value, str) and any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise ValueError("holds a control character")
    return value


def _setting_key(key: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", key):
        raise ValueError("is no name of a setting: letters, digits, dots, dashes and underscores")
    return key


Settings = dict[
    Annotated[str, AfterValidator(_setting_key)], Annotated[Scalar, AfterValidator(_printable)]
]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class ClusterPlan(_Part):
    """Where the nodes are."""

    kind: Slug = Field("docker", description="The kind of cluster: docker.")


class TargetPlan(_Part):
    """The system under test."""

    system: Slug = Field("kafka", description="The system under test, a plug-in in targets/.")
    version: Version | None = Field(None, description="A released version, such as 4.3.1.")
    image: Image | None = Field(
        None, description="An image that holds the system, used unchanged, instead of a version."
    )
    metadata: Literal["kraft", "zookeeper"] | None = Field(
        None,
        description="Who keeps the cluster's metadata; by default KRaft's controllers from 3.3 on, "
        "ZooKeeper before.",
    )
    brokers: int = Field(3, ge=1, le=9, description="How many brokers.")
    controllers: Literal[1, 3, 5] = Field(3, description="How many controllers (KRaft).")
    zookeepers: Literal[1, 3, 5] = Field(1, description="How many ZooKeeper servers.")
    racks: list[Slug] = Field(
        default_factory=list,
        max_length=9,
        description="Racks (zones) that brokers, and controllers, are spread over in turn.",
    )
    combined: bool = Field(
        False, description="true: the first brokers are the controllers too, no nodes of their own."
    )
    features: dict[Slug, int] = Field(
        default_factory=dict, description="Feature levels to format the cluster with."
    )
    settings: Settings = Field(
        default_factory=dict, description="Settings of every broker and controller."
    )
    memory_mb: int = Field(
        512, ge=256, le=16384, description="Memory limit of each node, in MiB (heap is half)."
    )

    @model_validator(mode="after")
    def _one_source(self) -> TargetPlan:
        if self.version and self.image:
            raise ValueError("takes a version or an image, not both")
        if self.combined and self.controllers > self.brokers:
            raise ValueError(
                f"asks for {self.controllers} combined controllers with {self.brokers} brokers"
            )
        return self


class TopicPlan(_Part):
    """The topic that the workload writes to."""

    name: Slug = Field("ackloss", description="The topic's name.")
    partitions: int = Field(1, ge=1, le=64, description="How many partitions.")
    replication_factor: int = Field(3, ge=1, le=9, description="Replicas of each partition.")
    leaders: Literal["spread", "one"] = Field(
        "spread", description="Who leads at first: the brokers in turn, or the first one all."
    )
    settings: Settings = Field(default_factory=dict, description="Settings of the topic.")


class WorkloadPlan(_Part):
    """What the clients do."""

    name: Slug = Field("append", description="A plug-in in workloads/.")
    processes: int = Field(
        1000, ge=1, le=20_000, description="Logical clients, each with one operation in flight."
    )
    clients: int = Field(3, ge=1, le=64, description="Real clients that the processes share.")
    client: Slug | None = Field(
        None, description="The client library; by default the first that the system has."
    )
    bootstrap: Literal["all", "own"] = Field(
        "all", description="Whom clients ask first: every broker, or each client one of its own."
    )
    rate_per_s: float = Field(
        100, ge=0, le=1_000_000, description="Operations a second, all together; 0: flat out."
    )
    duration_s: float = Field(40, gt=0, le=86_400, description="How long operations are begun.")
    producer: Settings = Field(
        default_factory=dict, description="Settings of the clients, from the allow-list."
    )
    options: dict[str, Any] = Field(default_factory=dict, description="The plug-in's own options.")


class Repeat(_Part):
    """How a step is repeated."""

    times: int = Field(ge=1, le=100, description="How often, the first time included.")
    every_s: float = Field(
        0, ge=0, le=3600, description="From one time to the next; without `at_s`: its `after_s`."
    )


class FaultStep(BaseModel):
    """One step of the schedule; steps begin one after the other, faults may overlap.

    A step begins at `at_s`, or when `when` holds (waited for, at most `within_s`), and `after_s`
    later. It applies a nemesis, or heals earlier steps. Other keys are the nemesis' own options.
    """

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True)

    id: Slug = Field(description="The name of this step, unique in the plan.")
    at_s: float | None = Field(None, ge=0, description="Seconds after the first operation.")
    when: str | None = Field(None, max_length=200, description="An observation to wait for.")
    within_s: float = Field(15, gt=0, le=3600, description="How long to wait for it.")
    after_s: float = Field(0, ge=0, le=3600, description="Seconds to wait once it is due.")
    otherwise: Literal["continue", "skip"] = Field(
        "continue", alias="else", description="What to do when the observation never came."
    )
    nemesis: Slug | None = Field(None, description="A plug-in in nemeses/.")
    nodes: str = Field("leader", max_length=200, description="Which nodes it meets: a selector.")
    for_s: float | None = Field(None, gt=0, le=3600, description="Heal it by itself after this.")
    heal: Literal["all"] | list[Slug] | None = Field(
        None, description="Heal these earlier steps instead of applying a nemesis."
    )
    repeat: Repeat | None = Field(
        None,
        description="`{ times, every_s }`: steps of the same kind, ids ending in -1, -2 ...; "
        "`{n}` in `nodes` is the number.",
    )

    @property
    def options(self) -> dict[str, Any]:
        """The nemesis' own options, as given."""
        return dict(self.model_extra or {})

    @model_validator(mode="after")
    def _one_act(self) -> FaultStep:
        if (self.nemesis is None) == (self.heal is None):
            raise ValueError("has either a nemesis to apply or a heal list, one of the two")
        if self.at_s is not None and self.when is not None:
            raise ValueError("begins at at_s or when an observation holds, not both")
        if self.heal is not None and self.options:
            raise ValueError(f"heals, so it has no options: {', '.join(sorted(self.options))}")
        return self


class Family(BaseModel):
    """One kind of fault in a mix; other keys are the nemesis' own options."""

    model_config = ConfigDict(extra="allow", frozen=True)

    nemesis: Slug = Field(description="A plug-in in nemeses/.")
    nodes: str = Field("random", max_length=200, description="Which nodes it meets: a selector.")
    weight: float = Field(1, gt=0, le=1000, description="How often, beside the other families.")

    @property
    def options(self) -> dict[str, Any]:
        """The nemesis' own options, as given."""
        return dict(self.model_extra or {})


class Mix(_Part):
    """Faults at random, instead of steps: times, lengths and families are drawn from the seed.
    They may overlap."""

    families: list[Family] = Field(min_length=1, max_length=50, description="What may happen.")
    from_s: float = Field(2, ge=0, le=86_400, description="Calm at the beginning.")
    mean_gap_s: float = Field(6, ge=0.1, le=3600, description="From one fault's begin to the next.")
    mean_length_s: float = Field(4, ge=0.1, le=3600, description="How long a fault lasts.")
    calm_s: float = Field(10, ge=0, le=86_400, description="Calm at the end: all is healed.")


class FinalPlan(_Part):
    """What happens after the last fault is healed."""

    drain_s: float = Field(
        60, ge=0, le=3600, description="How long to wait for answers to writes in flight."
    )
    settle_s: float = Field(60, gt=0, le=3600, description="How long to wait for a whole ISR.")
    read_s: float = Field(120, gt=0, le=86_400, description="How long the final read may take.")


class Plan(_Part):
    """A whole plan."""

    schema_: Literal[1] = Field(alias="schema", description="The version of this format: 1.")
    name: str = Field(min_length=1, max_length=200, description="What to call it; only ever text.")
    about: str = Field("", max_length=4000, description="What it shows; only ever text.")
    seed: int = Field(0, ge=0, lt=2**63, description="Every random choice is drawn from it.")
    expect: Literal["valid", "invalid", "unknown"] | None = Field(
        None, description="The verdict that this plan is known to give; changes no exit code."
    )
    cluster: ClusterPlan = Field(default_factory=lambda: ClusterPlan())
    target: TargetPlan = Field(default_factory=lambda: TargetPlan())
    topic: TopicPlan = Field(default_factory=lambda: TopicPlan())
    workload: WorkloadPlan = Field(default_factory=lambda: WorkloadPlan())
    faults: list[FaultStep] = Field(default_factory=list)
    schedule: Slug | None = Field(None, description="A named schedule, instead of steps.")
    mix: Mix | None = Field(None, description="Faults at random, instead of steps: see [mix].")
    final: FinalPlan = Field(default_factory=lambda: FinalPlan())
    checks: list[Slug] = Field(
        default_factory=lambda: ["loss"], min_length=1, description="Plug-ins in checkers/."
    )
    reference: list[Reference] = Field(
        default_factory=list,
        max_length=10,
        description="Figures from elsewhere, to print beside ours.",
    )

    @model_validator(mode="after")
    def _possible(self) -> Plan:
        given = [name for name in ("faults", "schedule", "mix") if getattr(self, name)]
        if len(given) > 1 and not self._holds_its_own_draw():
            raise ValueError(f"has {' and '.join(given)}: one of the three says what happens")
        _check_replicas(self)
        _check_steps(self)
        return self

    def _holds_its_own_draw(self) -> bool:
        """Whether the steps are what the mix gives with this seed: so a plan keeps both once it is
        parsed, and whoever judges its run knows that these faults were drawn at random."""
        return self.mix is not None and not self.schedule and self.faults == drawn(self)

    def document(self) -> dict[str, Any]:
        """The plan as JSON data, defaults filled in."""
        return self.model_dump(mode="json", by_alias=True)

    def digest(self) -> str:
        """A hash that is equal for equal plans."""
        body = orjson.dumps(self.document(), option=orjson.OPT_SORT_KEYS)
        return hashlib.sha256(body).hexdigest()


def _check_replicas(plan: Plan) -> None:
    factor, brokers = plan.topic.replication_factor, plan.target.brokers
    if factor > brokers:
        raise ValueError(
            f"topic.replication_factor: {factor} replicas need {factor} brokers, "
            f"target.brokers is {brokers}"
        )
    for owner, settings in (("topic", plan.topic.settings), ("target", plan.target.settings)):
        wanted = settings.get("min.insync.replicas")
        if isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > factor:
            raise ValueError(
                f'{owner}.settings."min.insync.replicas": {wanted} in-sync replicas are more than '
                f"topic.replication_factor, {factor}: every write would be refused"
            )


def _check_steps(plan: Plan) -> None:
    seen: set[str] = set()
    last_s = 0.0
    for place, step in enumerate(plan.faults):
        where = f"faults.{place}"
        if step.id in seen:
            raise ValueError(f"{where}.id: {step.id!r} names an earlier step too")
        for healed in step.heal if isinstance(step.heal, list) else []:
            if healed not in seen:
                raise ValueError(f"{where}.heal: no earlier step is named {healed!r}")
        seen.add(step.id)
        if step.at_s is None:
            continue
        if step.at_s >= plan.workload.duration_s:
            raise ValueError(
                f"{where}.at_s: {step.at_s:g} s is not before the end of the workload, "
                f"workload.duration_s is {plan.workload.duration_s:g}"
            )
        if step.at_s < last_s:
            raise ValueError(f"{where}.at_s: steps are in the order in which they begin")
        last_s = step.at_s


def parse_plan(document: Mapping[str, Any], *, file: str = "plan") -> Plan:
    """A validated plan. Raises PlanError that names the key and what would be right."""
    schema = document.get("schema")
    if isinstance(schema, int) and schema > 1:
        raise PlanError(
            f"this plan has schema {schema}, this ackloss reads 1",
            file=file,
            key="schema",
            hint="use a newer ackloss",
        )
    try:
        plan = Plan.model_validate(document)
        if plan.schedule:
            plan = Plan.model_validate(
                {**document, "schedule": None, **named_schedule(plan.schedule)}
            )
        steps = concrete(plan)
        return Plan.model_validate({**plan.document(), "faults": steps})
    except ValidationError as error:
        raise explain(error, Plan, file=file) from error
    except PlanError as error:
        error.file = error.file or file
        raise


def load_plan(path: Path, changes: Iterable[str] = ()) -> Plan:
    """Read a TOML plan, apply `--set KEY=VALUE` changes in order, and validate it."""
    return parse_plan(read_plan(path, changes), file=str(path))


def read_plan(path: Path, changes: Iterable[str] = ()) -> dict[str, Any]:
    """The raw document of a TOML plan with changes applied, not yet validated."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"is not TOML: {error}", file=str(path)) from error
    except UnicodeDecodeError as error:
        raise PlanError("is not UTF-8 text", file=str(path)) from error
    except OSError as error:
        raise PlanError(f"cannot be read: {error.strerror}", file=str(path)) from error
    for change in changes:
        apply_change(document, change)
    return document
