"""The user's own server.properties and producer.properties, as settings of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from targets.kafka import configuration
from targets.kafka.clients import library_of
from targets.kafka.plan import KafkaPlan
from targets.kafka.properties import partition, read_properties

BROKER: Final = "broker-settings"
PRODUCER: Final = "producer-settings"
FILES: Final = {
    BROKER: "Your server.properties, for every broker.",
    PRODUCER: "Your producer.properties.",
}
"""The options that name them, each with its help."""

Say = Callable[[str], None]


def with_files(
    document: Mapping[str, object], plan: KafkaPlan, files: Mapping[str, Path], say: Say
) -> dict[str, object]:
    """The plan's document with these settings; the plan's own override them, under any name.

    Raises PlanError for an unknown client, or a file that cannot be read.
    """
    library = library_of(plan)
    broker = _used(files.get(BROKER), configuration.why_refused, say)
    producer = _used(files.get(PRODUCER), library.why_refused, say)
    own = {library.same.get(key, key) for key in plan.workload.producer}
    producer = {
        key: value for key, value in producer.items() if library.same.get(key, key) not in own
    }
    with_broker = _with_settings(document, "target", "settings", broker)
    return _with_settings(with_broker, "workload", "producer", producer)


def _used(path: Path | None, why_refused: Callable[[str], str | None], say: Say) -> dict[str, str]:
    if path is None:
        return {}
    used, ignored = partition(read_properties(path), why_refused)
    for key, reason in ignored.items():
        say(f"{path}: {key} is ignored: {reason}")
    return used


def _with_settings(
    document: Mapping[str, object], section: str, key: str, settings: dict[str, str]
) -> dict[str, object]:
    """The document with these settings in a table of a section, beside those that are there."""
    table = _table(document, section)
    return {**document, section: {**table, key: {**settings, **_table(table, key)}}}


def _table(document: Mapping[str, object], key: str) -> dict[str, object]:
    found = document.get(key, {})
    return found if isinstance(found, dict) else {}
