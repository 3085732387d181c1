"""The campaign file: a base plan, and the axes along which its runs differ.

A cell is one choice of every axis; each cell is run a number of times, each with another seed.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
import tomllib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import orjson
from pydantic import Field, ValidationError, model_validator

from harness.errors import PlanError
from harness.plan import Scalar, Section, Slug, parse_plan, refuse_campaign
from harness.plan.model import dotted_keys
from harness.plan.parsing import dotted_parts, keys_set, set_key
from harness.run.by_hand import refuse_manual
from harness.run.own_settings import Decided, Decider, blaming, lengthened
from harness.run.resolving import ResolvedPlan, resolve
from harness.wrong_values import dotted, explain

KEPT, BROKEN, INCONCLUSIVE = 0, 1, 3
"""Exit codes of a campaign that has ended."""

Label = str
Key = dict[str, Label]
"""A cell: by axis, the label of its choice."""
Document = dict[str, object]
"""A plan as TOML data, before it is validated: any keys and values."""


class Choice(Section):
    """One value of an axis that changes several keys of the plan."""

    about: str = Field("", max_length=400, description="What it is, in words; only text.")
    set: dict[str, object] = Field(
        default_factory=dict, description="Keys of the plan and their values; none: unchanged."
    )
    repetitions: int | None = Field(
        None, ge=1, le=100_000, description="Overrides the campaign's, for these cells."
    )
    share: Literal["never"] | None = Field(
        None, description="`never`: these cells share no run, whatever the campaign's `share` is."
    )


class Axis(Section):
    """One dimension of the matrix: a key of the plan and its values, or named choices."""

    key: str | None = Field(None, description="A key of the plan, as `--set` writes it.")
    values: list[Scalar] = Field(default_factory=list, description="The values of `key`.")
    choices: dict[Slug, Choice] = Field(
        default_factory=dict, description="Instead of a key: named choices, each with several keys."
    )
    share: Literal["always"] | None = Field(
        None,
        description="`always`: cells that differ in this axis alone share their runs, whatever the "
        "campaign's `share` is; a file whose plans do not allow it is refused.",
    )
    distinct: bool = Field(
        False,
        description="Leave out the choices between the first and the last that give a plan which "
        "another choice gives too.",
    )

    @model_validator(mode="after")
    def _one_form(self) -> Axis:
        if self.choices and (self.key is not None or self.values):
            raise ValueError("has a key with values and choices; use one of them")
        if not self.choices and (self.key is None or not self.values):
            raise ValueError("needs a key and at least one value, or choices")
        labels = [label(value) for value in self.values]
        if len(set(labels)) < len(labels):
            raise ValueError("has the same value twice")
        return self

    def by_label(self) -> dict[Label, Choice]:
        """Every choice of this axis."""
        if self.key is None:
            return dict(self.choices)
        return {label(value): Choice(set={self.key: value}) for value in self.values}

    def choices_of(self, base: Document) -> dict[Label, Choice]:
        """The choices that cells of this base plan are made of. Raises PlanError."""
        by_label = self.by_label()
        if not self.distinct:
            return by_label
        first, *between, last = by_label
        changes = {name: changes_of(choice, base) for name, choice in by_label.items()}
        kept = [first, last]
        for name in between:
            if changes[name] not in [changes[each] for each in kept]:
                kept.insert(-1, name)
        return {name: by_label[name] for name in kept}


def changes_of(choice: Choice, base: Document) -> dict[str, tuple[str | None, str]]:
    """What a choice changes of a base plan, by the setting: its value before, if it has one, and
    after. A setting that a topic, say, lacks is that of the table that has it."""
    keys = dotted_keys(base)
    before = {dotted_parts(key)[-1]: value for key, value in keys.items()}
    changed = {}
    for key, value in choice.set.items():
        parts = dotted_parts(key)
        own = keys.get(dotted(tuple(parts)), before.get(parts[-1]))
        pair = None if own is None else label(own), label(value)
        if pair[0] != pair[1]:
            changed[parts[-1]] = pair
    return changed


class Budget(Section):
    """When to stop, finished or not; runs in progress are completed."""

    hours: float | None = Field(None, gt=0, le=8760, description="Hours of each session.")
    runs: int | None = Field(None, ge=1, description="Runs of each session.")


class Policy(Section):
    """When the exit code is 1. It is 3 if a cell that the policy names has no conclusive run."""

    fail_on: Literal["any", "all", "never"] = Field(
        "any", description="On a lossy run in any cell, in all cells, or never."
    )
    share: float = Field(
        0,
        ge=0,
        lt=1,
        description="A cell counts when more than this share of its conclusive runs is invalid; at "
        "0, when any run is, conclusive or not.",
    )
    cells: dict[Slug, Scalar | list[Scalar]] = Field(
        default_factory=dict,
        description="The choices, by axis, of the cells that it names; default: every cell.",
    )


class CampaignPlan(Section):
    """A campaign file."""

    schema_: Literal[1] = Field(alias="schema", description="The version of this format: 1.")
    name: Slug = Field(description="Its name.")
    about: str = Field("", max_length=4000, description="The question that it answers; only text.")
    plan: str = Field(
        description="The file of the base plan, relative to this file, or a shipped plan's name."
    )
    seed: int = Field(
        0, ge=0, lt=2**31, description="Base seed: the seeds of all runs follow from it."
    )
    repetitions: int = Field(10, ge=1, le=100_000, description="Runs of each cell.")
    workers: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Clusters in parallel; default: as many as the machine can run.",
    )
    limit_s: float | None = Field(
        None,
        gt=0,
        le=86_400,
        description="A run that takes longer, with the start and the warm-up of its cluster, has "
        "failed; default: 4 minutes and twice what its plan takes.",
    )
    share: Literal["auto", "always", "never"] = Field(
        "never",
        description="Whether cells share runs: `auto`, where their plans allow it; `always`, all "
        "cells, and a file whose plans do not allow it is refused; `never`.",
    )
    axes: dict[Slug, Axis] = Field(
        default_factory=dict, description="The dimensions of the matrix."
    )
    exclude: list[dict[Slug, Scalar | list[Scalar]]] = Field(
        default_factory=list, description="Combinations to leave out."
    )
    budget: Budget = Field(default_factory=lambda: Budget())
    policy: Policy = Field(default_factory=lambda: Policy())

    @model_validator(mode="after")
    def _known_names(self) -> CampaignPlan:
        named = [(f"exclude.{place}", each) for place, each in enumerate(self.exclude)]
        for where, choices in [*named, ("policy.cells", self.policy.cells)]:
            for axis, given in choices.items():
                if axis not in self.axes:
                    raise ValueError(f"{where}.{axis}: no axis has this name")
                for each in _listed(given):
                    if label(each) not in self.axes[axis].by_label():
                        raise ValueError(f"{where}.{axis}: {each!r} is not one of its values")
        return self


@dataclass(frozen=True)
class Cell:
    """One combination: its key, its plan (as data and resolved), how often it is run, and whether
    its choices let it share runs.

    `document` gets another seed for every run, so what is drawn from the seed in `resolved` is only
    an example.
    """

    key: Key
    document: Document
    resolved: ResolvedPlan
    repetitions: int
    may_share: bool = True

    @property
    def impossible(self) -> str | None:
        """Why the cell is never run: its version does not support a setting. `None`: it is run."""
        return "; ".join(map(str, self.resolved.unsupported)) or None

    @property
    def name(self) -> str:
        return cell_name(self.key)


@dataclass(frozen=True)
class Campaign:
    """A campaign file with its cells. `text` is the content of the file; `digest` is a hash of
    everything that determines the runs; `raised`: the repetitions that a resumed session added to,
    whatever the file says."""

    plan: CampaignPlan
    text: str
    base: Document
    cells: tuple[Cell, ...]
    digest: str
    raised: int | None = None

    def with_repetitions(self, number: int | None) -> Campaign:
        """The same campaign with at least so many runs of each cell; `None`: unchanged."""
        if number is None:
            return self
        cells = (replace(each, repetitions=max(each.repetitions, number)) for each in self.cells)
        return replace(self, cells=tuple(cells), raised=number)

    @property
    def possible(self) -> tuple[Cell, ...]:
        """The cells that can be run."""
        return tuple(cell for cell in self.cells if cell.impossible is None)

    @property
    def of_policy(self) -> tuple[Cell, ...]:
        """Those that its policy names."""
        return tuple(cell for cell in self.possible if _matches(cell.key, self.plan.policy.cells))

    @property
    def simulated(self) -> bool:
        """Whether nothing real is tested: of all cells, or of none."""
        return any(cell.resolved.provider.simulated for cell in self.cells)

    def seed(self, repetition: int) -> int:
        """The seed of the nth run of every cell: all settings meet the same draws."""
        source = f"{self.digest}/{self.plan.seed}/{repetition}".encode()
        return int.from_bytes(hashlib.sha256(source).digest()[:4], "big")


def label(value: object) -> Label:
    """A value of an axis as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def cell_name(key: Mapping[str, Label]) -> str:
    """A cell in one line; equal for equal choices."""
    return ", ".join(f"{axis}={choice}" for axis, choice in key.items()) or "the plan as it is"


def campaign_of(
    plan: CampaignPlan, text: str, base: Document, *, file: str, base_file: str = ""
) -> Campaign:
    """A campaign from its parts; equal parts give equal campaigns. `file` and `base_file`: where
    they are, for messages. Raises PlanError."""
    refuse_campaign(base, file=base_file or file)
    cells = tuple(_cells(plan, base, file, base_file or file))
    if not cells:
        raise PlanError("every combination is excluded", file=file, key="exclude")
    if len({cell.resolved.provider.simulated for cell in cells}) > 1:
        raise PlanError(
            "some cells are simulated and some are real",
            file=file,
            key="axes",
            hint="make two campaigns: their results never mix",
        )
    if all(cell.impossible for cell in cells):
        raise PlanError(f"no cell can be run: {cells[0].impossible}", file=file, key="axes")
    kept = plan.model_dump(mode="json", include={"name", "seed", "axes", "exclude"})
    for axis in kept["axes"].values():  # whether runs are shared decides no run's seed
        del axis["share"], axis["distinct"]
        for choice in axis["choices"].values():
            del choice["about"]
            choice["share"] = None  # the key stays: seeds of stored campaigns were made with it
    body = orjson.dumps([kept, base], option=orjson.OPT_SORT_KEYS)
    campaign = Campaign(plan, text, base, cells, hashlib.sha256(body).hexdigest())
    if not campaign.of_policy:
        raise PlanError("names no cell that is run", file=file, key="policy.cells")
    return campaign


def parse_campaign(text: str, *, file: str) -> CampaignPlan:
    """The campaign that a TOML text describes. Raises PlanError."""
    try:
        return CampaignPlan.model_validate(tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"is not TOML: {error}", file=file) from error
    except ValidationError as error:
        raise explain(error, CampaignPlan, file=file) from error


def _cells(plan: CampaignPlan, base: Document, file: str, base_file: str) -> list[Cell]:
    axes = {name: axis.choices_of(base) for name, axis in plan.axes.items()}
    cells = []
    for labels in itertools.product(*axes.values()):
        key = dict(zip(axes, labels, strict=True))
        if any(_matches(key, left_out) for left_out in plan.exclude):
            continue
        choices = {axis: axes[axis][choice] for axis, choice in key.items()}
        counts = [c.repetitions for c in choices.values() if c.repetitions is not None]
        document, resolved = _resolved(base, choices, key, file, base_file)
        repetitions = 0 if resolved.unsupported else min(counts, default=plan.repetitions)
        may_share = all(choice.share != "never" for choice in choices.values())
        cells.append(Cell(key, document, resolved, repetitions, may_share))
    return cells


def with_choices(base: Document, choices: Mapping[str, Choice]) -> Document:
    """A copy of a base plan, changed by these choices, which are by axis. Raises PlanError."""
    document = copy.deepcopy(base)
    for axis, choice in choices.items():
        try:
            for name, value in choice.set.items():
                set_key(document, dotted_parts(name), copy.deepcopy(value))
        except PlanError as error:
            error.key = f"axes.{axis}"
            raise
    return document


def decided_by_axes(axes: Mapping[str, Axis], base: Document) -> Decided:
    """The keys of the base plan that axes set in some cell, each with its axis."""
    decided = {}
    for name, axis in axes.items():
        choices = axis.by_label().values()
        set_by = Counter(
            parts
            for choice in choices
            for key, value in choice.set.items()
            for parts in keys_set(base, dotted_parts(key), value)
        )
        for parts, count in set_by.items():
            decided[parts] = Decider(f"the axis {name}", everywhere=count == len(choices))
    return decided


def _resolved(
    base: Document, choices: Mapping[str, Choice], key: Key, file: str, base_file: str
) -> tuple[Document, ResolvedPlan]:
    try:
        document = lengthened(with_choices(base, choices))
    except PlanError as error:
        error.file = file
        raise
    try:
        return document, _resolved_plan(document, file)
    except PlanError as error:
        if own := _of_the_base(error, base, base_file):
            raise own from error
        error.what = f"{error.what} (in the cell {cell_name(key)})"
        raise


def _resolved_plan(document: Document, file: str) -> ResolvedPlan:
    with blaming(document):
        resolved = resolve(parse_plan(document, file=file), file=file)
    refuse_manual(resolved)
    return resolved


def _of_the_base(error: PlanError, base: Document, file: str) -> PlanError | None:
    """The error of a cell as one of the base plan, which is refused for the same reason without
    the cell's choices; `None` if they are the reason."""
    try:
        _resolved_plan(base, file)
    except PlanError as own:
        return own if (own.key, own.what) == (error.key, error.what) else None
    return None


def _matches(key: Key, left_out: Mapping[str, Scalar | list[Scalar]]) -> bool:
    return all(
        key[axis] in [label(each) for each in _listed(given)] for axis, given in left_out.items()
    )


def _listed(given: Scalar | list[Scalar]) -> list[Scalar]:
    return given if isinstance(given, list) else [given]


@dataclass(frozen=True)
class Tally:
    """The runs of one cell: how many are `invalid`, how many are conclusive, how many are both."""

    invalid: int = 0
    conclusive: int = 0
    conclusive_invalid: int = 0


def breaking(policy: Policy, cells: Mapping[str, Tally]) -> set[str]:
    """The names of the cells that make the exit code 1; none where the policy is kept.

    A cell breaks it when more than the policy's share of its conclusive runs are `invalid`; with a
    share of 0 when any run is, conclusive or not: one counter-example is enough, whatever else
    happened in the run.
    """
    share = policy.share
    lossy = {
        name
        for name, tally in cells.items()
        if (tally.conclusive_invalid > share * tally.conclusive if share else tally.invalid)
    }
    judged = {name for name, tally in cells.items() if tally.conclusive or name in lossy}
    if policy.fail_on == "never" or (policy.fail_on == "all" and lossy != judged):
        return set()
    return lossy


def inconclusive(policy: Policy, cells: Mapping[str, Tally]) -> set[str]:
    """The names of the cells that make the exit code 3: each cell without a conclusive run. Without
    a policy (`fail_on = "never"`) only where no cell has one."""
    without = {name for name, tally in cells.items() if not tally.conclusive}
    return without if policy.fail_on != "never" or len(without) == len(cells) else set()


def exit_code(policy: Policy, cells: Mapping[str, Tally]) -> int:
    """1 where the policy is broken, else 3 where a cell has no conclusive run, else 0.

    A broken policy takes precedence: an inconclusive cell does not cancel what another one shows.
    """
    if breaking(policy, cells):
        return BROKEN
    return INCONCLUSIVE if inconclusive(policy, cells) else KEPT


def inconclusive_in_words(policy: Policy, cells: Mapping[str, Tally]) -> str | None:
    """A sentence about the cells without a conclusive run; `None` if there are none."""
    names = [name for name in cells if name in inconclusive(policy, cells)]
    if not names:
        return None
    if len(names) == len(cells):
        return "no run of the campaign is conclusive: no share is known of any cell"
    are = "1 cell has" if len(names) == 1 else f"{len(names)} cells have"
    return f"{are} no conclusive run, so no share is known of {'; '.join(names)}"
