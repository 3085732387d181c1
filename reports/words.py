"""The words of a page: numbers as people write them, and the sentence that a person would say."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

UNDEFINED: Final = "not defined"
"""What stands where a rate has nothing to divide by: never 0."""


def number(value: float | None) -> str:
    """A count with its thousands apart; a broken number with what it is worth."""
    if value is None:
        return UNDEFINED
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def seconds(value: float | None) -> str:
    """An instant or a length in seconds."""
    return "—" if value is None else f"{value:,.2f} s"


def milliseconds(value: float | None) -> str:
    """A latency; its unit grows with it."""
    if value is None or math.isnan(value):
        return "—"
    return f"{value:.3g} ms" if value < 1000 else f"{value / 1e3:.3g} s"


def percent(part: int, whole: int) -> str:
    """A share that is shown as 0 % or 100 % only when it is exactly that."""
    return share(part / whole) if whole else UNDEFINED


def share(value: float | None) -> str:
    """The same of a number between 0 and 1."""
    if value is None:
        return "—"
    if value in (0, 1):
        return f"{100 * value:.0f} %"
    room = min(100 * value, 100 - 100 * value)
    return f"{100 * value:.{max(1, 1 - math.floor(math.log10(room)))}f} %"


def points(value: float) -> str:
    """A difference of two shares in percentage points, with its sign."""
    return f"{100 * value:+.1f}".replace("-", "−")


def chance(p: float) -> str:
    """A p-value."""
    return "< 0.0001" if p < 0.0001 else f"{p:.2g}" if p < 0.1 else f"{p:.2f}"


def moment(wall_time: str | None) -> str:
    """An ISO time as a person reads it; what is none stays as it is."""
    try:
        return f"{datetime.fromisoformat(wall_time or ''):%d %B %Y, %H:%M:%S %Z}".lstrip("0")
    except ValueError:
        return wall_time or ""


def headline(result: Mapping[str, Any] | None) -> str:
    """The answer in one sentence."""
    if result is None:
        return "This run has not been checked"
    counts = result["counts"]
    lost, acknowledged = counts["lost"], counts["acknowledged"]
    of = f"{number(lost)} of {number(acknowledged)} acknowledged writes"
    if result["verdict"] == "unknown":
        return "It is not known whether acknowledged writes were lost"
    if lost:
        were = "was" if lost == 1 else "were"
        return f"{of} {were} lost ({percent(lost, acknowledged)})"
    if result["verdict"] == "invalid":
        return f"No acknowledged write was lost, but {_other_wrong(counts)}"
    return f"None of {number(acknowledged)} acknowledged writes was lost"


def _other_wrong(counts: Mapping[str, int]) -> str:
    for key, one, many in (
        ("unexpected", "value was read that nobody wrote", "values were read that nobody wrote"),
        ("failed_found", "failed write is in the log", "failed writes are in the log"),
        ("duplicates", "write stands in the log again", "extra copies of writes are in the log"),
    ):
        if counts.get(key):
            return f"{number(counts[key])} {one if counts[key] == 1 else many}"
    return "the run is invalid"


def flat(settings: Any, before: str = "") -> dict[str, str]:
    """Settings, however deep, as `dotted.key: text`, with true and false as Kafka writes them."""
    if isinstance(settings, Mapping):
        inner: dict[str, str] = {}
        for key, value in settings.items():
            inner |= flat(value, f"{before}.{key}" if before else str(key))
        return inner
    if isinstance(settings, list):
        if not any(isinstance(value, Mapping | list) for value in settings):
            return {before: ", ".join(plain(value) for value in settings)}
        return flat({str(place): value for place, value in enumerate(settings)}, before)
    return {before: plain(settings)}


def plain(value: Any) -> str:
    """A value of a setting as text."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def command(run: Mapping[str, Any], seed: int | None) -> str:
    """The command that plays this plan with the same draws again: as it was given, without other
    plans that it played, and with the seed."""
    plan = str(run.get("plan_file") or "PLAN")
    given = [str(word) for word in run.get("command") or ["ackloss", "run", plan]]
    words = [word for word in given if word == plan or not word.endswith(".toml")]
    if seed is not None and not any(word.split("=")[0] == "--seed" for word in words):
        words[2:2] = ["--seed", str(seed)]
    return shlex.join(words)
