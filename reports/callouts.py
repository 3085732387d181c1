"""What a reader of a run's page must know before believing a number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from harness.history.documents import KILLED, RunResult, StoredRun

_EXAMPLES: Final = 5


@dataclass(frozen=True)
class Callout:
    """What a reader must know before believing a number."""

    title: str
    text: str


def callouts(metadata: StoredRun, result: RunResult | None) -> Iterator[Callout]:
    """The warnings above the verdict; `result` is None if the run has not been checked."""
    for forced in metadata.forced:
        yield Callout(
            "Forced: this version does not honour a requested setting",
            f"{forced.key}: {forced.what} ({forced.source}).",
        )
    yield from _state(metadata)
    if result is None:
        yield Callout("No verdict", "Run `ackloss check` on this folder to count its writes.")
    elif result.complete is False:
        yield Callout("The evidence is incomplete", "The counts below are lower bounds.")
    for gap in result.gaps if result else ():
        yield Callout("The folder differs from what the run wrote", f"{_capitalised(gap)}.")
    if metadata.load.starved:
        why = metadata.load.why or "the load was lower than the plan requests"
        yield Callout("The load generator starved", f"{_capitalised(why)}.")
    yield from conduct(result)
    for caution in result.cautions if result else ():
        yield Callout("Caution", f"{_capitalised(caution)}.")
    for warning in metadata.warnings:
        yield Callout("Note", warning)


def conduct(result: RunResult | None) -> Iterator[Callout]:
    """What clients that are processes of the user's did wrong."""
    if result is None or (clients := result.clients) is None or clients.clean:
        return
    first = clients.incidents[:_EXAMPLES]
    sentences = [f"client-{each.client} at {each.at_s:.1f} s: {each.what}" for each in first]
    more = sum(clients.counts.values()) - len(first)
    sentences += [f"and {more:,} more"] if more else []
    yield Callout(f"Incidents of the clients: {clients.sentence}", "; ".join(sentences) + ".")


def _state(metadata: StoredRun) -> Iterator[Callout]:
    """The end of a run that did not end well."""
    error = metadata.error or ""
    if metadata.state == "interrupted":
        yield Callout("This run was interrupted", error or "It stopped before its end.")
    elif metadata.state == "failed":
        text = error or "The harness did not finish it. This is not a loss."
        yield Callout("This run failed", text)
    elif metadata.state == KILLED:
        yield Callout("This run was killed", "Its process ended before the run did.")
    elif metadata.state not in (None, "done"):
        yield Callout("This run is not finished", f"Its state is {metadata.state!r}.")
    elif error:
        yield Callout("This run had an error", error)


def _capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
