"""One run as a page tells it: the words and tables around the timeline, plain data for a template.

A run may have been stopped at any moment, or be an old one: whatever is absent is said to be
absent, and never looks like a good answer.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pandas as pd

from analysis.figures import names
from analysis.lost import findings, first_and_last
from analysis.lost_spans import Event, Placed, events, placed_spans
from analysis.timeline import Timeline, timeline
from harness.campaigns.folder import CampaignDir
from harness.errors import HistoryError
from harness.history.run_folder import RunDir
from reports import beside, words

DECISIVE: Final = (
    ("producer", "acks"),
    ("producer", "enable.idempotence"),
    ("topic", "min.insync.replicas"),
    ("topic", "unclean.leader.election.enable"),
)
"""The settings that decide most of what is lost: the sentence under the headline names them."""

DIFFERS: Final = "differs"
"""The group of settings that differ from broker to broker, by their nature: addresses, ids."""

_VERDICTS: Final = {"valid": "✓", "invalid": "✕", "unknown": "?", "unchecked": "?"}
_FATES: Final = (
    ("survived", "acknowledged, survived"),
    ("lost", "acknowledged, lost"),
    ("absent", "acknowledged, not yet visible"),
    ("sent", "sent with acks=0"),
    ("fail", "refused"),
    ("info", "unknown"),
)


_OTHERS: Final = {
    "unexpected": "Values that nobody wrote",
    "failed_found": "Refused writes that are in the log",
    "duplicate": "Further copies of writes",
    "unknown_found": "Unknown writes that are in the log",
    "not_yet_visible": "Acknowledged and not yet visible",
}
_EXAMPLES: Final = 5
_NAMED: Final = ("id", "nemesis", "heal")
_WAITING: Final = ("within_s", "else")
_MEETS_CLIENTS: Final = ("client",)  # no nodes: what a step says of them is a default


@dataclass(frozen=True)
class Setting:
    """One setting: `asked` is None where it was left at its default."""

    group: str
    key: str
    asked: str | None
    effective: str | None

    @property
    def shown(self) -> bool:
        """Whether it is shown at once, or folded away with the other defaults."""
        return self.asked is not None or (self.group, self.key) in DECISIVE

    @property
    def differs(self) -> bool:
        """Whether the cluster says something else than was asked."""
        if self.asked is None or self.effective is None:
            return False
        return self.asked.lower() != self.effective.lower()


@dataclass(frozen=True)
class Story:
    """Everything that a page says about one run."""

    run: RunDir
    plan: dict[str, Any]
    facts: dict[str, Any]
    result: dict[str, Any] | None
    line: Timeline

    @property
    def verdict(self) -> str:
        return str(self.result["verdict"]) if self.result else "unchecked"

    @property
    def icon(self) -> str:
        return _VERDICTS.get(self.verdict, "?")

    @property
    def counts(self) -> Mapping[str, Any] | None:
        return self.result["counts"] if self.result else None

    @property
    def headline(self) -> str:
        return words.headline(self.result)

    @property
    def name(self) -> str:
        return str(self.plan.get("name") or self.run.run_id)

    @property
    def seed(self) -> int | None:
        for document in (self.result or {}, self.facts, self.plan):
            if document.get("seed") is not None:
                return int(document["seed"])
        return None

    @property
    def called(self) -> dict[str, str]:
        """What each outcome of a write is called; with acks=0 nothing was acknowledged."""
        acks = {s.key: s.effective or s.asked for s in self.settings if s.group == "producer"}
        judged = bool(self.result and self.result.get("complete"))
        return names(
            "sent" if acks.get("acks") == "0" else "acknowledged",
            judged=judged,
            known=self.verdict != "unknown",
        )

    @cached_property
    def settings(self) -> list[Setting]:
        """Every setting that was asked or is known to hold; asked and decisive ones first."""
        told = self.facts.get("settings") or {}
        asked = told.get("asked") or _asked(self.plan)
        effective = told.get("effective") or {}
        features = self.facts.get("features") or {}
        asked = {**asked, "features": features.get("asked") or {}}
        effective = {**effective, "features": features.get("effective") or {}}
        rows = list(_settings(asked, effective))
        return sorted(rows, key=lambda row: (not row.shown, row.asked is None))

    @property
    def sentence(self) -> str:
        """The settings in one line, as one would name them to explain the headline."""
        known = {(row.group, row.key): row.effective or row.asked for row in self.settings}
        named = [f"{key}={known[group, key]}" for group, key in DECISIVE if (group, key) in known]
        return ", ".join([*named, self.where])

    @property
    def where(self) -> str:
        """The system and the shape of its cluster."""
        target, topic = self.plan.get("target") or {}, self.plan.get("topic") or {}
        system = str(target.get("system") or "")
        version = str(target.get("version") or target.get("image") or "")
        told = (self.facts.get("versions") or {}).get("target") or f"{system} {version}".strip()
        shape = [str(told) if system in str(told) else f"{system} {told}"]
        if target.get("brokers"):
            shape.append(f"{target['brokers']} brokers")
        if topic.get("replication_factor"):
            shape.append(f"replication factor {topic['replication_factor']}")
        return ", ".join(part for part in shape if part.strip())

    @property
    def command(self) -> str:
        return words.command(self.facts, self.seed)

    @property
    def fates(self) -> list[tuple[str, str, int]]:
        """What became of the attempted writes: colour, words, count; the counts add up."""
        if self.result is None:
            return []
        counts = self.result["counts"]
        survived = counts["survivors"] - counts["unacknowledged_found"]
        known = {
            "survived": survived,
            "lost": counts["lost"],
            "absent": counts["not_yet_visible"],
            "sent": counts["sent"],
            "fail": counts["failed"],
            "info": counts["unknown"],
        }
        fates = [(key, label, known[key]) for key, label in _FATES if known[key] > 0]
        rest = counts["attempted"] - sum(known.values())
        return [*fates, ("open", "never completed", rest)] if rest > 0 else fates

    @property
    def codes(self) -> list[tuple[str, list[tuple[str, int]]]]:
        """With which codes writes failed or ended unknown, and how many each."""
        told = (self.result or {}).get("errors") or {}
        return [
            (kind, list(told[kind].items())) for kind in ("failed", "unknown") if told.get(kind)
        ]

    def begun(self, fault: str) -> int | None:
        """How many writes were begun while a fault was in force; None where nobody counted."""
        told = {each["id"]: each.get("ops_begun") for each in (self.result or {}).get("faults", ())}
        return told.get(fault)

    def how(self, fault: str) -> dict[str, str]:
        """What the plan says of one fault: when, on what, and its nemesis' own options."""
        steps = [step for step in self.plan.get("faults") or [] if step.get("id") == fault]
        given = {key: value for step in steps for key, value in step.items() if value}
        if given.get("nemesis") in _MEETS_CLIENTS:
            given.pop("nodes", None)
        if "when" not in given:
            given = {key: value for key, value in given.items() if key not in _WAITING}
        return words.flat({key: value for key, value in given.items() if key not in _NAMED})

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """What a reader must know before believing a number: a title and a sentence each."""
        return list(_warnings(self))

    @cached_property
    def all_lost(self) -> pd.DataFrame:
        """Every lost write (`analysis.lost.findings`)."""
        return findings(self.run)

    @property
    def lost(self) -> list[dict[Hashable, Any]]:
        """First and last lost write of each partition."""
        return first_and_last(self.all_lost).to_dict("records")

    @cached_property
    def spans(self) -> list[Placed]:
        """From when to when writes were lost: of all, then of each client."""
        return placed_spans(self.run, self.plan, self.line)

    @property
    def events(self) -> list[Event]:
        """What those spans may begin or end with, in the order of time."""
        return events(self.line)

    @property
    def references(self) -> list[Mapping[str, Any]]:
        """Figures from elsewhere that the plan names."""
        return beside.references(self.plan)

    @property
    def others(self) -> list[tuple[str, int, list[dict[Hashable, Any]]]]:
        """What else was found, by kind: how many, and the first few."""
        found = findings(self.run, list(_OTHERS))
        return [
            (title, len(some), some.head(_EXAMPLES).to_dict("records"))
            for kind, title in _OTHERS.items()
            if len(some := found[found["kind"] == kind])
        ]


@contextmanager
def trusting(*folders: RunDir | CampaignDir) -> Iterator[None]:
    """Say in one sentence that a folder's documents are not what they should be.

    A folder may come from elsewhere, or from another version; its pages rest on so many keys that
    each missing one would be a traceback of its own.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(
            f"holds something that this ackloss does not write: {error!r}",
            file=", ".join(str(folder.path) for folder in folders),
            hint="report it with the ackloss that made it, or check it again",
        ) from error


def story(run: RunDir) -> Story:
    """Read a run's folder; `run.json` must be there, the rest may not be yet.

    Raises HistoryError when something is there that cannot be read.
    """
    facts = run.read_json(run.run)
    nodes = [str(node["name"]) for node in facts.get("nodes") or []]
    return Story(
        run=run,
        plan=_if_there(run, run.plan) or {},
        facts=facts,
        result=_if_there(run, run.result),
        line=timeline(run, nodes=nodes),
    )


def _if_there(run: RunDir, path: Path) -> dict[str, Any] | None:
    return run.read_json(path) if path.is_file() else None


def _asked(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "broker": (plan.get("target") or {}).get("settings") or {},
        "topic": (plan.get("topic") or {}).get("settings") or {},
        "producer": (plan.get("workload") or {}).get("producer") or {},
    }


def _settings(asked: Mapping[str, Any], effective: Mapping[str, Any]) -> Iterator[Setting]:
    for group in ("producer", "topic", "broker", "features", DIFFERS):
        wanted, known = words.flat(asked.get(group) or {}), words.flat(effective.get(group) or {})
        for key in sorted({*wanted, *known}):
            yield Setting(group, key, wanted.get(key), known.get(key))


def _warnings(story: Story) -> Iterator[tuple[str, str]]:
    for each in story.facts.get("forced") or []:
        what = f"{each['key']}: {each['what']} ({each['source']})."
        yield "Forced: this version does not honour what was asked", what
    state = story.facts.get("state")
    told = str(story.facts.get("error") or "")
    if state == "interrupted":
        yield "This run was interrupted", told or "It was stopped before its end."
    elif state == "failed":
        yield "This run failed", told or "The harness could not finish it; this is not a loss."
    elif state not in (None, "done"):
        yield "This run is not finished", f"Its state is {state!r}."
    elif told:
        yield "This run had an error", told
    if story.result is None:
        yield "Nothing has been judged", "Run `ackloss check` on this folder to count its writes."
    elif not story.result.get("complete", True):
        yield "Not everything was read", "The counts below are lower bounds."
    for gap in (story.result or {}).get("gaps") or []:
        yield "The folder is not as the run left it", f"{gap[:1].upper()}{gap[1:]}."
    load = story.facts.get("load") or {}
    if load.get("starved"):
        why = str(load.get("why") or "the load was not what the plan asks for")
        yield "Starved", why[:1].upper() + why[1:]
    if (story.plan.get("cluster") or {}).get("kind") == "model":
        yield "This is a model", "It ran in memory and in virtual time: no real system was tested."
    for warning in story.facts.get("warnings") or []:
        yield "Note", str(warning)
