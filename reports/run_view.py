"""One run as its page shows it: the text and tables around the timeline, for a template.

A run may have stopped at any moment, and its files may come from an earlier version. What is absent
is reported as absent, and never looks like a good result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import cos, pi, sin
from pathlib import Path
from typing import Any, Final, NamedTuple

import pandas as pd

from analysis.figures import outcome_labels
from analysis.findings import findings, first_and_last
from analysis.panels import AGAIN, COMMITTED, TONE_OF
from analysis.timeline import Event, PlacedSpan, Timeline, events, placed_spans, timeline
from analysis.wording import capitalised
from checkers.judging.one_run import stored_result
from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError
from harness.faults.journal import entries
from harness.history.documents import KILLED, Counts, RunResult, StoredRun, read_run, result_of
from harness.history.rows import target_of
from harness.history.run_folder import RunDir
from harness.models import LOG, MODELS, REGISTER
from reports import checks, formatting
from reports.alarms import Drawn, drawn, summary
from reports.cells import Cells
from reports.checks import CheckView, Examples, examples
from reports.references import Reference, references
from reports.why import Why, why

# What a reader of a run's page must know before believing a number.

_INCIDENTS: Final = 5


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
        yield Callout("The folder differs from what the run wrote", f"{capitalised(gap)}.")
    if metadata.load.starved:
        why = metadata.load.why or "the load was lower than the plan requests"
        yield Callout("The load generator starved", f"{capitalised(why)}.")
    yield from conduct(result)
    for caution in result.cautions if result else ():
        yield Callout("Caution", f"{capitalised(caution)}.")
    for warning in metadata.warnings:
        yield Callout("Note", warning)


def conduct(result: RunResult | None) -> Iterator[Callout]:
    """What clients that are processes of the user's did wrong."""
    if result is None or (clients := result.clients) is None or clients.clean:
        return
    first = clients.incidents[:_INCIDENTS]
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


DIFFERS: Final = "differs"
"""The group of settings that differ from node to node, such as addresses and ids."""

UNCHECKED: Final = "unchecked"
DEFAULT: Final = "the system's default"
CLUSTERS: Final = "your cluster"
_LONG: Final = 40
_OTHER_FINDINGS: Final = ("unexpected", "failed_found", "duplicate", "not_yet_visible")
"""Of the loss check, beside lost writes."""
_EXAMPLES: Final = 5
_SHOWN_ELSEWHERE: Final = ("id", "nemesis", "heal")
_WAITING: Final = ("within_s", "else")
_ACTS_ON_CLIENTS: Final = ("client", "consumer")
"""`nodes` of such a step is a default without effect."""

Records = list[dict[Hashable, Any]]


@dataclass(frozen=True)
class Fate:
    """The outcome of some of the attempted writes; `key` is the colour."""

    key: str
    label: str
    count: int


@dataclass(frozen=True)
class Setting:
    """One setting; `requested` is None if the plan does not set it. `decisive`: it is one of those
    that decide most losses. `origin`: who decided it; `own`: the system's own value, if this one is
    a shorter time-out."""

    group: str
    key: str
    requested: str | None
    effective: str | None
    decisive: bool = False
    origin: str = DEFAULT
    own: str | None = None

    @property
    def shown(self) -> bool:
        """Whether it is in the table, or in the folded list of defaults."""
        others, is_long = (DEFAULT, CLUSTERS), len(self.effective or "") > _LONG
        of_interest = self.origin not in others and not is_long  # not lists of addresses
        return self.requested is not None or self.decisive or of_interest

    @property
    def differs(self) -> bool:
        """Whether the cluster reports another value than the plan requests."""
        if self.requested is None or self.effective is None:
            return False
        return self.requested.lower() != self.effective.lower()


@dataclass(frozen=True)
class RunView:
    """The contents of a run's page. `result` is None if the run has not been checked."""

    run: RunDir
    plan: Mapping[str, Any]
    metadata: StoredRun
    result: RunResult | None
    line: Timeline

    @property
    def verdict(self) -> str:
        return self.result.verdict if self.result else UNCHECKED

    @property
    def counts(self) -> Counts | None:
        return self.result.counts if self.result else None

    @property
    def has_cells(self) -> bool:
        """Whether it holds several cells, which have pages of their own."""
        return bool(self.run.cell_names())

    @cached_property
    def cells(self) -> Cells | None:
        return Cells(self.run, self.result) if self.has_cells and self.result else None

    @property
    def headline(self) -> str:
        if (result := self.result) is None:
            return formatting.headline(None)
        if self.cells:
            return self.cells.headline
        shown = formatting.headline if self.counts_losses else checks.headline
        if result.verdict == "unknown" or not all(fault.control for fault in result.faults):
            return shown(result)
        return f"{shown(result)}; no fault was made"

    @property
    def has_timeline(self) -> bool:
        """Whether there is an operation to draw: the history may be pruned."""
        return any(self.line.total.values())

    @property
    def counts_losses(self) -> bool:
        """Whether the counts are those of the loss check, or there are none."""
        return self.result is None or checks.counts_losses(self.result)

    @cached_property
    def checks(self) -> list[checks.CheckView]:
        """The checks that have a section of their own."""
        return checks.views(self.result) if self.result else []

    def examples(self, check: CheckView) -> list[Examples]:
        """The first findings of a check, of each kind; those of the loss check and registers that
        are wrong are shown otherwise."""
        if check.name == LOG.check:
            return []
        every = examples(self.run, check.name)
        found = [each for each in every if not (check.drawings and each.kind.startswith("not_"))]
        of = {each.kind: checks.words(check.name, each.kind) for each in found}
        return [
            replace(each, kind=of[each.kind].label, meaning=of[each.kind].meaning) for each in found
        ]

    @property
    def legend(self) -> dict[str, tuple[str, str]]:
        """What the charts below the rates show: the tone and the form of each label, with how many
        there are of what is counted."""
        found = {
            track.name: (track.tone, "stepped" if track.name == COMMITTED else "line")
            for panel in self.line.panels
            for track in panel.tracks
        }
        totals: Counter[tuple[str, str]] = Counter()
        for panel in self.line.panels:
            totals.update({(panel.check, kind): number for kind, number in panel.counts.items()})
        for (check, kind), number in totals.items():
            form = "hatched" if kind == AGAIN else "area"
            label = f"{checks.words(check, kind).label} {number:,}"
            found[label] = TONE_OF.get(kind, "lost"), form
        return found

    @property
    def simulated(self) -> bool:
        """Whether nothing real was tested."""
        return self.metadata.simulated or (self.result is not None and self.result.simulated)

    @property
    def operations(self) -> str:
        return "writes" if self.metadata.promises.model == LOG.name else "operations"

    @property
    def name(self) -> str:
        """Its plan's, or that of the cell of a campaign, whose plan is the base with changes."""
        of, own = self.metadata.campaign, str(self.plan.get("name") or self.run.run_id)
        return f"{of.name}: {of.cell}" if of is not None and of.cell is not None else own

    @property
    def run_page(self) -> str | None:
        """Of a cell in its run's folder, the way to the page that compares it with the others."""
        return "../../report.html" if self.run.path.parent.name == "cells" else None

    @property
    def seed(self) -> int | None:
        recorded = (self.result.seed if self.result else None, self.metadata.seed)
        planned: int | None = self.plan.get("seed")
        return next((seed for seed in (*recorded, planned) if seed is not None), None)

    @property
    def outcome_labels(self) -> dict[str, str]:
        """The labels of the outcomes of writes; with acks=0 a write is sent, not acknowledged."""
        acks = {s.key: s.effective or s.requested for s in self.settings if s.group == "producer"}
        return outcome_labels(
            "sent" if acks.get("acks") == "0" else "acknowledged",
            judged=bool(self.result and self.result.complete)
            and self.metadata.promises.model != REGISTER.name,
            known=self.verdict != "unknown",
            losses=self.metadata.promises.model != REGISTER.name,
        )

    @cached_property
    def settings(self) -> list[Setting]:
        """Every setting that the plan requests or the cluster reports; requested ones first."""
        settings, features = self.metadata.settings, self.metadata.features
        requested = {**requested_settings(self.plan), **settings.asked, "features": features.asked}
        effective = {**settings.effective, "features": features.effective}
        decisive, rows = _decisive(self.plan), list[Setting]()
        for group in sorted({**requested, **effective}, key=lambda name: name == DIFFERS):
            wanted = formatting.flat(requested.get(group) or {})
            known = formatting.flat(effective.get(group) or {})
            origins, own = settings.origins.get(group, {}), settings.shortened.get(group, {})
            for key in sorted({*wanted, *known}):
                origin = origins.get(key, "the plan" if key in wanted else DEFAULT)
                values, decides = (wanted.get(key), known.get(key)), (group, key) in decisive
                rows.append(Setting(group, key, *values, decides, origin, own.get(key)))
        return sorted(rows, key=lambda row: (not row.shown, row.requested is None))

    @property
    def shortened(self) -> list[Setting]:
        """Time-outs that are shorter than the system's own."""
        return [row for row in self.settings if row.own is not None]

    @property
    def sentence(self) -> str:
        """The settings that explain the headline, and the cluster, in one line."""
        if self.has_cells:
            return self.where
        known = {(row.group, row.key): row.effective or row.requested for row in self.settings}
        named = [
            f"{key}={known[group, key]}"
            for group, key in _decisive(self.plan)
            if (group, key) in known
        ]
        return ", ".join([*named, self.where])

    @property
    def where(self) -> str:
        """The system, its version and the size of the cluster."""
        target = self.plan.get("target") or {}
        system = str(target.get("system") or "")
        planned = f"{system} {target.get('version') or target.get('image') or ''}".strip()
        ran = self.metadata.versions
        version = ran.get("servers") or ran.get("target") or planned
        parts = [version if system in version.lower() else f"{system} {version}"]
        described = target_of(self.plan)
        if described is not None:
            parts += described.size(self.plan)
        return ", ".join(part for part in parts if part.strip())

    @property
    def fates(self) -> list[Fate]:
        """The outcome of the attempted writes; the counts add up to the attempts."""
        if (counts := self.counts) is None:
            return []
        survived = counts.survivors - counts.unacknowledged_found
        fates = [
            Fate("survived", "acknowledged, survived", survived),
            Fate("lost", "acknowledged, lost", counts.lost),
            Fate("absent", "acknowledged, not yet visible", counts.not_yet_visible),
            Fate("sent", "sent with acks=0", counts.sent),
            Fate("fail", "failed", counts.failed),
            Fate("info", "unknown", counts.unknown),
        ]
        rest = counts.attempted - sum(fate.count for fate in fates)
        return [fate for fate in (*fates, Fate("open", "never completed", rest)) if fate.count > 0]

    @property
    def codes(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """The error codes of failed and of unknown writes, with their counts."""
        if self.result is None:
            return []
        errors = self.result.errors
        kinds = (("Failed", errors.failed), ("Unknown", errors.unknown))
        return [(kind, list(codes.items())) for kind, codes in kinds if codes]

    def in_force(self, fault: str) -> tuple[int | None, int | None]:
        """How many writes were begun, and how many acknowledged, while a fault was in force; None
        for what was not counted."""
        faults = self.result.faults if self.result else ()
        counted = ((each.ops_begun, each.ops_acknowledged) for each in faults if each.id == fault)
        return next(counted, (None, None))

    @cached_property
    def reaches(self) -> dict[str, Reach]:
        """Who could reach whom while each fault was in force."""
        return reaches(self.run.faults, [node.name for node in self.metadata.nodes])

    def met_by(self, fault: str) -> str | None:
        """Which leaders a fault met, in words; `None` if that is not known."""
        return self.result.met_by(fault) if self.result else None

    def options(self, fault: str) -> dict[str, str]:
        """The plan's options of one fault: when, on which nodes, and those of its nemesis."""
        steps = [step for step in self.plan.get("faults") or [] if step.get("id") == fault]
        given = {key: value for step in steps for key, value in step.items() if value}
        if given.get("nemesis") in _ACTS_ON_CLIENTS:
            given.pop("nodes", None)
        if "when" not in given:
            given = {key: value for key, value in given.items() if key not in _WAITING}
        return formatting.flat(
            {key: value for key, value in given.items() if key not in _SHOWN_ELSEWHERE}
        )

    @property
    def callouts(self) -> list[Callout]:
        return list(callouts(self.metadata, self.result))

    @cached_property
    def all_lost(self) -> pd.DataFrame:
        return findings(self.run)

    @property
    def lost(self) -> Records:
        """The first and the last lost write of each partition."""
        return first_and_last(self.all_lost).to_dict("records")

    @cached_property
    def spans(self) -> list[PlacedSpan]:
        """The interval in which writes were lost: of all clients, then of each."""
        return placed_spans((self.result.lost_spans or ()) if self.result else (), self.line)

    @property
    def events(self) -> list[Event]:
        """The events at which those intervals may begin or end."""
        return events(self.line)

    @cached_property
    def why(self) -> Why | None:
        """Why its lost writes were lost."""
        return why(self.run) if self.result else None

    @property
    def deliveries(self) -> list[Why]:
        """Why its consumers skipped records, processed some again, or got what the log lacks."""
        kinds = ("skipped", "reprocessed", "phantom")
        asked = (why(self.run, kind) for kind in kinds if self.result)
        return [each for each in asked if each is not None]

    @property
    def alarms(self) -> str:
        """Which published alarm rules would have fired; empty where none was evaluated."""
        if self.result is None or not self.result.alarms:
            return ""
        return summary(self.result.alarms, lost=bool(self.result.counts.lost))

    @cached_property
    def metrics(self) -> list[Drawn]:
        """The metrics of its nodes that changed."""
        return drawn(self.run)

    @property
    def references(self) -> list[Reference]:
        return references(self.plan)

    @property
    def other_findings(self) -> list[tuple[str, int, Records]]:
        """All other findings by kind: how many, and the first few."""
        if not self.counts_losses:
            return []
        found = findings(self.run, _OTHER_FINDINGS)
        return [
            (
                checks.words(LOG.check, kind).label.capitalize(),
                len(some),
                some.head(_EXAMPLES).to_dict("records"),
            )
            for kind in _OTHER_FINDINGS
            if len(some := found[found["kind"] == kind])
        ]


@contextmanager
def malformed_is_history_error(*folders: RunDir | CampaignDir) -> Iterator[None]:
    """Report a malformed document as a HistoryError.

    A folder may come from another machine or version. Its pages rest on many fields, each of which
    could be missing; without this, a missing one would be a traceback.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, ZeroDivisionError) as error:
        raise HistoryError(
            f"holds something that this ackloss does not write: {error!r}",
            file=", ".join(str(folder.path) for folder in folders),
            hint="use the ackloss that wrote it to report it, or check it again",
        ) from error


def run_view(run: RunDir) -> RunView:
    """Read a run's folder; `run.json` must exist, other files may not exist yet.

    Raises HistoryError if a file exists and cannot be read.
    """
    metadata = read_run(run)
    document = stored_result(run)
    return RunView(
        run=run,
        plan=run.read_json(run.plan) if run.plan.is_file() else {},
        metadata=metadata,
        result=None if document is None else result_of(document, file=run.result),
        line=timeline(
            run, nodes=[node.name for node in metadata.nodes], model=MODELS[metadata.promises.model]
        ),
    )


def requested_settings(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings that the plan requests, in the order of its system."""
    target = target_of(plan)
    return {} if target is None else target.stored_request(plan)


def _decisive(plan: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """The settings that decide most losses, for a run of this plan."""
    target = target_of(plan)
    return () if target is None else target.decisive()


# Who could reach whom while a fault was in force: the nodes of the run in a circle, the links that
# it cut, the nodes that it stopped. As its journal states it: also what was undone before its end.

WIDTH: Final = 220
HEIGHT: Final = 150
RADIUS: Final = 46
_OUTSIDE: Final = 19
"""From a dot to its name."""
_LETTER: Final = 7.5
"""The width of a letter of a name, at most about."""
_MOST: Final = 12
"""Nodes that a circle holds; of more only those that the fault is about are drawn."""
_STOPPED: Final = {"process": "down", "power": "down", "pause": "paused"}
"""What levers do to a whole node."""


class Dot(NamedTuple):
    name: str
    x: float
    y: float
    label_x: float
    label_y: float
    anchor: str
    state: str


class Link(NamedTuple):
    """From one dot to another: `cut`: not at all, or not `one way`, or `whole`."""

    x1: float
    y1: float
    x2: float
    y2: float
    kind: str


@dataclass(frozen=True)
class Reach:
    """The picture of one fault, and its words."""

    dots: Sequence[Dot]
    links: Sequence[Link]
    words: str

    @property
    def spare(self) -> float:
        """How much wider than WIDTH the picture is on either side, for long names."""
        sizes = (_LETTER * len(f"{dot.name} {dot.state}".strip()) for dot in self.dots)
        parts = {"middle": 0.5, "start": 1.0, "end": 1.0}
        ends = [
            abs(dot.label_x - WIDTH / 2) + parts[dot.anchor] * size
            for dot, size in zip(self.dots, sizes, strict=True)
        ]
        return max(0.0, max(ends) - WIDTH / 2)


def reaches(journal: Path, nodes: Sequence[str]) -> dict[str, Reach]:
    """The picture of each fault that cut links or stopped nodes; none of other faults. Raises
    HistoryError."""
    acts: dict[Any, Mapping[str, Any]] = {}
    done: dict[str, list[Mapping[str, Any]]] = {}
    for entry in entries(journal):
        if entry["type"] == "intent":
            acts[entry["n"]] = entry
        elif entry["type"] == "done" and (act := acts.get(entry["n"])) is not None:
            done.setdefault(act["fault"], []).append(act)
    found = {fault: _reach(every, nodes) for fault, every in done.items()}
    return {fault: reach for fault, reach in found.items() if reach is not None}


def _reach(acts: Sequence[Mapping[str, Any]], nodes: Sequence[str]) -> Reach | None:
    unheard: dict[tuple[str, str], None] = {}
    stopped: dict[str, str] = {}
    words: dict[str, None] = {}
    for act in acts:
        token = act.get("token") or {}
        names = str(token.get("node", "")).split(",")
        if state := _STOPPED.get(act["lever"]):
            stopped |= dict.fromkeys(names, state)
        elif act["lever"] == "net" and token.get("share", 1.0) == 1.0:
            node, peers = names[0], [str(peer["name"]) for peer in token["peers"]]
            direction = token.get("direction", "both")
            for peer in peers:
                unheard |= dict.fromkeys([(peer, node)] if direction != "out" else [])
                unheard |= dict.fromkeys([(node, peer)] if direction != "in" else [])
            ports = ", ".join(str(port) for port in token.get("ports") or ())
            cut = _said(node, ", ".join(peers), direction)
            words[f"{cut} (port {ports})" if ports else cut] = None
    if not unheard and not stopped:
        return None
    words |= {f"{node} is {state}": None for node, state in stopped.items()}
    concerned = [*(name for pair in unheard for name in pair), *stopped]
    every = list(dict.fromkeys([*nodes, *concerned]))
    shown = every if len(every) <= _MOST else list(dict.fromkeys(concerned))
    dots = {name: _dot(name, at, len(shown), stopped) for at, name in enumerate(shown)}
    return Reach(list(dots.values()), _links(dots, unheard), "; ".join(words))


def _said(node: str, peers: str, direction: str) -> str:
    if direction == "both":
        return f"{node} and {peers} do not reach each other"
    if direction == "in":
        return f"{node} hears nothing from {peers}"
    return f"{node} does not reach {peers}"


def _dot(name: str, at: int, of: int, stopped: Mapping[str, str]) -> Dot:
    angle = 2 * pi * at / of - pi / 2 if of != 2 else pi * at + pi
    across, down = cos(angle), sin(angle)
    x, y = WIDTH / 2, HEIGHT / 2
    anchor = "middle" if abs(across) < 0.3 else "start" if across > 0 else "end"
    far = RADIUS + _OUTSIDE
    return Dot(
        name=name,
        x=round(x + RADIUS * across, 1),
        y=round(y + RADIUS * down, 1),
        label_x=round(x + (far - 6 * (anchor != "middle")) * across, 1),
        label_y=round(y + far * down + 4, 1),
        anchor=anchor,
        state=stopped.get(name, ""),
    )


def _links(dots: Mapping[str, Dot], unheard: Mapping[tuple[str, str], None]) -> list[Link]:
    """One link for each pair; one that is cut one way ends at the dot that does not hear."""
    found = []
    for a, b in combinations(dots, 2):
        ways = [(a, b) in unheard, (b, a) in unheard]
        kind = ("whole", "one-way", "cut")[sum(ways)]
        first, second = (b, a) if ways == [False, True] else (a, b)
        ends = (dots[first].x, dots[first].y, dots[second].x, dots[second].y)
        found.append(Link(*ends, kind))
    return sorted(found, key=lambda link: link.kind != "whole")
