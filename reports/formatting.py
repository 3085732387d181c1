"""Numbers, settings and the headline as text for pages."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from harness.history.documents import CONCLUSIVE, CellResult, RunResult, StoredRun
from harness.protocols.checkers import percent
from harness.protocols.clusters import SIMULATED as SIMULATED

UNDEFINED: Final = "not defined"
"""A rate whose denominator is 0: never 0."""
UNKNOWN: Final = "unknown"
"""Losses of a run whose verdict is neither valid nor invalid: never 0."""
NOTHING: Final = "—"
"""A value that does not exist."""


def number(value: float | None) -> str:
    """A count with thousands separators; any other number with four significant digits."""
    if value is None:
        return UNDEFINED
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    return NOTHING if value is None else f"{value:,.2f} s"


def milliseconds(value: float | None) -> str:
    """A latency with a fitting unit."""
    if value is None or math.isnan(value):
        return NOTHING
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1e3:.3g} s"


def rate(value: float | None) -> str:
    """A rate of result.json as a percentage; "not defined" if its denominator is 0."""
    return UNDEFINED if value is None else share(value)


def share(value: float | None) -> str:
    """A share as a percentage; a dash if it does not exist."""
    return NOTHING if value is None else percent(value)


def lost(result: RunResult | CellResult) -> str:
    """How many acknowledged writes a run lost."""
    return number(result.counts.lost) if result.verdict in CONCLUSIVE else UNKNOWN


def loss_rate(result: RunResult | CellResult) -> str:
    """The share of its acknowledged writes that a run lost."""
    return rate(result.rates.loss) if result.verdict in CONCLUSIVE else UNKNOWN


def icon(verdict: str) -> str:
    """The sign of a verdict."""
    return {"valid": "✓", "invalid": "✕"}.get(verdict, "?")


def p_value(p: float) -> str:
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def moment(wall_time: str | None) -> str:
    """An ISO time as a date and a time of day; other text is unchanged."""
    try:
        return f"{datetime.fromisoformat(wall_time or ''):%d %B %Y, %H:%M:%S %Z}".lstrip("0")
    except ValueError:
        return wall_time or ""


def headline(result: RunResult | None) -> str:
    """The result of a run in one sentence."""
    if result is None:
        return "This run has not been checked"
    acknowledged = result.counts.acknowledged
    if result.verdict == "unknown":
        return not_known("acknowledged writes were lost", result)
    if result.counter_examples == ("replicas_differ",):
        return "Replicas hold different records"
    if lost := proven(result).get("lost"):
        of = f"{number(lost)} of {number(acknowledged)} acknowledged writes"
        return f"{of} {'was' if lost == 1 else 'were'} lost ({share(lost / acknowledged)})"
    if result.verdict == "valid":
        return f"None of {number(acknowledged)} acknowledged writes was lost"
    other = _other_counter_example(proven(result))
    if result.counts.lost:
        return f"{other}; it is not known whether acknowledged writes were lost"
    return f"No acknowledged write was lost, but {other}"


def not_known(what: str, result: RunResult) -> str:
    """The headline of a run with the verdict `unknown`, with the first reason for it."""
    why = re.split(r"; (?![^(]*\))", result.reason or "")[0]
    return f"It is not known whether {what}" + (f": {why}" if why else "")


def proven(result: RunResult) -> Mapping[str, int]:
    """How many writes each counter-example of the loss check has, by the name of the count: `lost`,
    `unexpected`, `failed_found`, `duplicates`. Fewer than the count has where only one of two
    readers saw some of them, or the log may have deleted them."""
    is_known = result.verdict == "invalid" and result.checks
    return dict(result.checks[0].details.get("confirmed", {})) if is_known else {}


_OTHERS: Final = {
    "unexpected": (
        "value was read that was never written",
        "values were read that were never written",
    ),
    "failed_found": ("failed write was found", "failed writes were found"),
    "duplicates": ("duplicate was found", "duplicates were found"),
}
"""Counter-examples beside lost writes: one of them, and many."""


def _other_counter_example(proven: Mapping[str, int]) -> str:
    for name, (one, many) in _OTHERS.items():
        if count := proven.get(name):
            return f"{number(count)} {one if count == 1 else many}"
    return "the run is invalid"


def flat(settings: object, prefix: str = "") -> dict[str, str]:
    """Nested settings as `dotted.key: text`, with true and false as Kafka writes them."""
    if isinstance(settings, Mapping):
        inner: dict[str, str] = {}
        for key, value in settings.items():
            inner |= flat(value, f"{prefix}.{key}" if prefix else str(key))
        return inner
    if isinstance(settings, list | tuple):
        if not any(isinstance(value, Mapping | list) for value in settings):
            return {prefix: ", ".join(value_text(value) for value in settings)}
        return flat({str(place): value for place, value in enumerate(settings)}, prefix)
    return {prefix: value_text(settings)}


def value_text(value: object) -> str:
    """The value of a setting as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


FLAGS: Final = frozenset(
    {
        *("--and-prevention", "--as-expected", "--compare", "--dry-run", "--force", "--json"),
        "--keep-cluster",
        *("--no-color", "--quiet", "--verbose", "-h", "--help", "-q", "-v"),
        *("--real-timeouts", "--strict"),
    }
)
"""The options of `ackloss run` that take no value."""


def command(run: StoredRun, seed: int | None) -> str:
    """The command that runs this plan again with the same random choices: the original command
    with the seed, and without the other plans that it ran."""
    plan = run.plan_file or "PLAN"
    words = list(run.command) or ["ackloss", "run", plan]
    words[2:] = _without_other_plans(words[2:], plan)
    if seed is not None and not any(word.split("=")[0] == "--seed" for word in words):
        words[2:2] = ["--seed", str(seed)]
    return shlex.join(words)


def repeats(run: StoredRun) -> str:
    """What the command repeats, and for a run of a campaign where its plan is."""
    same = "The same plan with the same random choices"
    if run.cluster.id is None:  # only campaigns note it
        return f"{same}:"
    return f"{same}. This is a run of a campaign: plan.json in its folder has its cell's settings."


def _without_other_plans(words: Sequence[str], plan: str) -> Iterator[str]:
    """The options with their values, and of what is neither the plan."""
    is_value = False
    for word in words:
        is_option = word.startswith("-") and not is_value
        if is_value or is_option or word == plan:
            yield word
        is_value = is_option and "=" not in word and word not in FLAGS


def part_of(part: int, whole: int) -> str:
    """`19 of 200 (9.5 %)`; of none no share."""
    return f"{part:,} of {whole:,}" + (f" ({share(part / whole)})" if whole else "")
