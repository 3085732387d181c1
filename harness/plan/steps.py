"""What plans are made of: the grammar of names and settings, and the steps of a fault schedule."""

from __future__ import annotations

import math
import random
import re
import tomllib
from collections.abc import Iterator, Sequence
from importlib import resources
from operator import itemgetter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticKnownError

from harness.errors import PlanError

# Named schedules, random mixes and repeated steps, written out as the steps that they stand for.
#
# A plan holds only concrete steps once it is parsed: so a dry run prints what will happen, a stored
# run shows what was requested although a schedule's file may change later, and the code that
# executes, counts or draws faults need not know where they come from. Every draw comes from the
# plan's seed.

_SHORTEST_S = 0.5


def named_schedules() -> dict[str, dict[str, Any]]:
    """The schedules that come with ackloss, as TOML documents (`about`, `faults` or `mix`), by
    name."""
    folder = resources.files("schedules")
    return {
        file.name.removesuffix(".toml"): tomllib.loads(file.read_text(encoding="utf-8"))
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".toml")
    }


def named_schedule(name: str) -> dict[str, Any]:
    """`faults` or `mix` of a named schedule. Raises PlanError for an unknown name."""
    known = named_schedules()
    if name not in known:
        raise PlanError(
            f"no schedule is named {name!r}", key="schedule", hint=f"one of {', '.join(known)}"
        )
    return {key: value for key, value in known[name].items() if key in ("faults", "mix")}


def concrete(
    faults: Sequence[FaultStep], mix: Mix | None, *, seed: int, duration_s: float
) -> list[dict[str, Any]]:
    """A plan's steps as documents, with a mix drawn and repeats written out. Repeated steps take
    turns by their times, unless a step among them waits for something."""
    steps = drawn(mix, seed=seed, duration_s=duration_s) if mix else faults
    copies = [copy for step in steps for copy in _copies(step)]
    in_turns = any(step.repeat for step in steps) and all(step.at_s is not None for step in steps)
    return sorted(copies, key=itemgetter("at_s")) if in_turns else copies


def drawn(mix: Mix, *, seed: int, duration_s: float) -> list[FaultStep]:
    """The steps that a mix gives with this seed, in a workload of this length: at random times, of
    families by their weights; the workload's end has no faults."""
    draw, steps = random.Random(f"{seed}/mix"), list[FaultStep]()
    weights = [family.weight for family in mix.families]
    at_s, last_s = mix.from_s, duration_s - mix.calm_s
    while (at_s := at_s + draw.expovariate(1 / mix.mean_gap_s)) < last_s - _SHORTEST_S:
        family = draw.choices(mix.families, weights)[0]
        length_s = max(_SHORTEST_S, draw.expovariate(1 / mix.mean_length_s))
        step = {
            "id": f"{family.nemesis}-{len(steps) + 1}",
            "at_s": round(at_s, 2),
            "for_s": round(min(length_s, last_s - at_s), 2),
            "nemesis": family.nemesis,
            "nodes": family.nodes,
            **family.options,
        }
        steps.append(FaultStep.model_validate(step))
    return steps


def _copies(step: FaultStep) -> Iterator[dict[str, Any]]:
    """The step as often as it is to be repeated, later each time; `{n}` in its `nodes` counts."""
    document = step.model_dump(mode="json", by_alias=True, exclude={"repeat"})
    if step.repeat is None:
        yield document
        return
    for n in range(step.repeat.times):
        copy = {**document, "id": f"{step.id}-{n + 1}"}
        copy["nodes"] = step.nodes.replace("{n}", str(n + 1))
        if step.at_s is not None:
            copy["at_s"] = round(step.at_s + n * step.repeat.every_s, 3)
        elif n:
            copy["after_s"] = step.repeat.every_s
        yield copy


Scalar = bool | int | float | str
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9._-]{0,62}$")]
VERSION = r"^\d+(\.\d+){1,3}$"
Version = Annotated[str, StringConstraints(pattern=VERSION)]
Image = Annotated[
    str,
    StringConstraints(
        pattern=r"^[a-z0-9]+([._/:-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?"
        r"(@sha256:[0-9a-f]{64})?$",
        max_length=255,
    ),
]


def _finite(value: Any) -> Any:
    """TOML has inf and nan, JSON has not: in a stored plan they would be null, the default."""
    if isinstance(value, float) and not math.isfinite(value):
        raise PydanticKnownError("finite_number")
    if isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            _finite(each)
    return value


Option = Annotated[Any, AfterValidator(_finite)]
"""An option of a plug-in; the plug-in checks the rest."""


def _printable(value: Scalar) -> Scalar:
    if isinstance(value, str) and any(ord(c) < 32 or ord(c) == 127 for c in value):
        raise ValueError("holds a control character")
    return value


def _setting_key(key: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", key):
        raise ValueError("is not a setting name: use letters, digits, dots, dashes and underscores")
    return key


Settings = dict[
    Annotated[str, AfterValidator(_setting_key)],
    Annotated[Scalar, AfterValidator(_printable), AfterValidator(_finite)],
]


def _forms(annotation: Any) -> Iterator[Any]:
    """The types of an annotation such as `int | None`, and the values of a literal."""
    if get_origin(annotation) in (Union, UnionType, Literal):
        for each in get_args(annotation):
            yield from _forms(each)
    else:
        yield get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


class _Table(BaseModel):
    """A table of a plan or of a campaign. Pydantic by itself takes true for 1, and "3" for 3."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_a_number(cls, value: object, info: ValidationInfo) -> object:
        """Refuse true, false and text where only numbers are right."""
        if not isinstance(value, (bool, str)):
            return value
        forms = set(_forms(cls.model_fields[str(info.field_name)].annotation)) - {NoneType}
        if forms <= {int, float}:
            raise PydanticKnownError("float_type" if float in forms else "int_type")
        if isinstance(value, bool) and all(type(form) is int for form in forms):
            wanted = " or ".join(map(str, forms))
            raise PydanticKnownError("literal_error", {"expected": wanted})
        return value


class Section(_Table):
    """A part of a plan: unknown keys are refused, and nothing changes it."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True, defer_build=True)


class OpenSection(_Table):
    """A part of a plan whose other keys belong to others, such as the options of a plug-in."""

    model_config = ConfigDict(extra="allow", frozen=True, populate_by_name=True, defer_build=True)
    __pydantic_extra__: dict[str, Option] = Field(init=False)

    @property
    def options(self) -> dict[str, Any]:
        """The other keys, as given."""
        return dict(self.model_extra or {})


class Repeat(Section):
    """How a step is repeated."""

    times: int = Field(ge=1, le=100, description="How often in total.")
    every_s: float = Field(
        0,
        ge=0,
        le=3600,
        description="Seconds from one time to the next; without `at_s`: its `after_s`.",
    )


class FaultStep(OpenSection):
    """One step of the schedule. Steps begin in order; faults may overlap.

    A step begins at `at_s`, or when `when` holds (waited for, at most `within_s`), and `after_s`
    later; where `nodes` finds no node then, it waits for one, at most `within_s`. It applies a
    nemesis, or heals earlier steps. Other keys are the nemesis' own options.
    """

    id: Slug = Field(description="The name of this step, unique in the plan.")
    at_s: float | None = Field(None, ge=0, description="Seconds after the first operation.")
    when: str | None = Field(None, max_length=200, description="The condition to wait for.")
    within_s: float = Field(15, gt=0, le=3600, description="How long to wait for it.")
    after_s: float = Field(0, ge=0, le=3600, description="Seconds to wait once it is due.")
    otherwise: Literal["continue", "skip"] = Field(
        "continue", alias="else", description="What to do if the condition never held."
    )
    nemesis: Slug | None = Field(None, description="A plug-in in nemeses/.")
    nodes: str = Field(
        "leader", max_length=200, description="Selector of the nodes that it affects."
    )
    for_s: float | None = Field(
        None,
        gt=0,
        le=3600,
        description="Heal it this long after it was applied; it lasts longer by the time that its "
        "last probe takes.",
    )
    heal: Literal["all"] | list[Slug] | None = Field(
        None, description="Heal these earlier steps instead of applying a nemesis."
    )
    repeat: Repeat | None = Field(
        None,
        description="`{ times, every_s }`: steps of the same kind, ids ending in -1, -2 ...; "
        "`{n}` in `nodes` is the number. Several such steps take turns.",
    )

    @model_validator(mode="after")
    def _one_act(self) -> FaultStep:
        if (self.nemesis is None) == (self.heal is None):
            raise ValueError("has either a nemesis to apply or a heal list, one of the two")
        if self.at_s is not None and self.when is not None:
            raise ValueError("begins at at_s or when a condition holds, not both")
        if self.heal is not None and self.options:
            raise ValueError(f"heals, so it has no options: {', '.join(sorted(self.options))}")
        return self


class Family(OpenSection):
    """One kind of fault in a mix; other keys are the nemesis' own options."""

    nemesis: Slug = Field(description="A plug-in in nemeses/.")
    nodes: str = Field(
        "random", max_length=200, description="Selector of the nodes that it affects."
    )
    weight: float = Field(1, gt=0, le=1000, description="Relative frequency among the families.")


class Mix(Section):
    """Random faults, instead of steps: times, lengths and families are drawn from the seed.
    They may overlap."""

    families: list[Family] = Field(min_length=1, max_length=50, description="The kinds of faults.")
    from_s: float = Field(2, ge=0, le=86_400, description="Fault-free period at the beginning.")
    mean_gap_s: float = Field(
        6, ge=0.1, le=3600, description="Mean time between the starts of successive faults."
    )
    mean_length_s: float = Field(4, ge=0.1, le=3600, description="Mean length of a fault.")
    calm_s: float = Field(
        10,
        ge=0,
        le=86_400,
        description="Fault-free period at the end, less the last probe of a fault that lasts "
        "until then.",
    )
