"""What two nights prove and what they do not, in sentences that the numbers support."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from analysis.statistics.contrasts import ALPHA

Document = Mapping[str, Any]


def cell_in_words(cell: Document, *, cells: int) -> str:
    """One cell: what changed, or what cannot be said of it, tested among so many `cells`."""
    status, old, new = cell["status"], cell["old"], cell["new"]
    shares = f"{_lossy(old)} before, {_lossy(new)} now"
    if status == "not judged":
        which = " and ".join(
            name for name, side in (("before", old), ("now", new)) if not side["conclusive"]
        )
        return f"cannot be compared: no conclusive run {which}; {shares}"
    p = f"{_p(cell['p_adjusted'])}, {_test(cell['test'], cells)}"
    if status == "regression":
        return f"loses more often: {shares} ({p}); {_interval(cell)}"
    if status == "improvement":
        return f"loses less often: {shares} ({p}); {_interval(cell)}"
    if status == "doubtful":
        more = "more" if cell["difference"] > 0 else "less"
        others = old["inconclusive"] + new["inconclusive"]
        return (
            f"doubtful whether it loses {more} often: {_count(others, 'run')} that "
            f"{_do(others)} not count may have made it look so: {shares} ({p}; "
            f"{_p(cell['p_unknown_against'])} with those counted against it)"
        )
    limits = f"{_interval(cell)}{_alike(cell)}{_more_runs(cell, cells)}"
    return f"no difference shown: {shares} ({p}); {limits}"


def conclusion(document: Document) -> list[str]:
    """The sentences at the top: what changed, what else did, and what cannot be concluded."""
    cells = document["cells"]
    by_status: dict[str, list[str]] = {}
    for cell in cells:
        by_status.setdefault(cell["status"], []).append(cell["name"])
    told = ["No cell is shown to lose more often than in the night before"]
    if worse := by_status.get("regression"):
        told = [f"{_of(worse, cells)} more often than in the night before: {_names(worse)}"]
    if better := by_status.get("improvement"):
        told.append(f"{_of(better, cells)} less often: {_names(better)}")
    if doubtful := by_status.get("doubtful"):
        told.append(f"Runs that do not count leave a change in doubt in {_names(doubtful)}")
    if unjudged := by_status.get("not judged"):
        told.append(
            f"Nothing can be said of {_names(unjudged)}: one of the two has no conclusive run"
        )
    told += _only_in_one(document)
    told += _new_kinds(cells)
    told += _limits(by_status.get("no difference shown", []), cells)
    told.append(_causes(document))
    return [f"{sentence}." for sentence in told]


def _of(names: list[str], cells: list[Document]) -> str:
    lose = "loses" if len(names) == 1 else "lose"
    return f"{len(names)} of {_count(len(cells), 'cell')} {lose}"


def _only_in_one(document: Document) -> Iterable[str]:
    if gone := document["only_old"]:
        was = "was" if len(gone) == 1 else "were"
        yield f"{_names(gone)} {was} not played this time, so there is nothing to compare"
    if new := document["only_new"]:
        yield f"{_names(new)} {'is' if len(new) == 1 else 'are'} new, so there is no night before"


def _new_kinds(cells: list[Document]) -> Iterable[str]:
    """New kinds of verdict that the test of losses does not look at."""
    said = {
        "wrong": "Runs that are wrong in another way than by loss are new in",
        "harness_failure": "Failures of the harness are new in",
        "vacuous": "Runs that put nothing to the test are new in",
    }
    for kind, sentence in said.items():
        if names := [cell["name"] for cell in cells if kind in cell["new_classes"]]:
            yield f"{sentence} {_names(names)}"


def _limits(names: list[str], cells: list[Document]) -> Iterable[str]:
    """That nothing was shown is not that nothing changed: how much may have, all the same."""
    unshown = [cell for cell in cells if cell["name"] in names]
    few = [cell["name"] for cell in unshown if _too_few(cell, len(cells))]
    if few:
        yield (
            f"Too few runs are conclusive in {_names(few)}: even none lossy in one night and all "
            "in the other would not show"
        )
    rises = [cell["high"] for cell in unshown if cell["name"] not in few]
    if rises:
        yield (
            "No difference shown is not no difference: where enough runs are conclusive, up to "
            f"{max(rises) * 100:.0f} points more lossy runs are still possible in a cell"
        )


def _causes(document: Document) -> str:
    differs = [each for each in document["differs"] if each["key"] != "plan_hash"]
    if not differs:
        return (
            "Plan, axes and versions are the same in both nights, so a change is one of the "
            "machine, or chance"
        )
    kinds = Counter(each["what"] for each in differs)
    called = {"plan": "key of the plan", "campaign": "key of the campaign"}
    told = ", ".join(_count(number, called.get(kind, kind)) for kind, number in kinds.items())
    return (
        f"The nights differ in what they were played with ({told}): a change may have any of these "
        "causes"
    )


def _more_runs(cell: Document, cells: int) -> str:
    if _too_few(cell, cells):
        return "; so few runs could not have shown any"
    if cell["runs_needed"] is None:
        return ""
    return f"; were these the true shares, {cell['runs_needed']:,} runs a night would tell"


def _too_few(cell: Document, cells: int) -> bool:
    return cell["p_least"] is not None and cell["p_least"] * cells > ALPHA


def _alike(cell: Document) -> str:
    """That two campaigns are shown to be the same but for a margin, where they are."""
    told = cell["equivalence"]
    if not told["equivalent"]:
        return ""
    within = f"equivalent within {told['margin'] * 100:.0f} points"
    if told["doubtful"]:
        return f"; {within}, unless the runs that do not count say otherwise: doubtful"
    return f"; {within} ({_p(told['p'])}, two one-sided exact tests)"


def _interval(cell: Document) -> str:
    low, high = cell["low"] * 100, cell["high"] * 100
    return f"{low:+.0f} to {high:+.0f} points (95 %)"


def _lossy(side: Document) -> str:
    told = f"{side['lossy']} of {side['conclusive']} lossy"
    if not side["inconclusive"]:
        return told
    seen = f", {side['inconclusive_lossy']} of them lossy" if side["inconclusive_lossy"] else ""
    return f"{told} and {side['inconclusive']} that {_do(side['inconclusive'])} not count{seen}"


def _do(runs: int) -> str:
    return "does" if runs == 1 else "do"


def _p(p: float) -> str:
    return f"p = {p:.2g}" if p >= 0.0001 else "p < 0.0001"


def _test(name: str, cells: int) -> str:
    return f"{name}'s test" + (f", corrected for {cells} cells" if cells > 1 else "")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {_plural(what)}"


def _plural(what: str) -> str:
    """Of "key of the plan" as of "cell"."""
    noun, space, rest = what.partition(" of ")
    return ("axes" if noun == "axis" else f"{noun}s") + space + rest


def _names(names: Iterable[str]) -> str:
    return "; ".join(names)
