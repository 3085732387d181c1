"""The user's own server.properties and producer.properties, as settings of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from harness.cli.properties import partition, read_properties
from harness.errors import PlanError
from harness.plan import Plan


class OwnSettings:
    """Both files, read once. Settings that a plan may not have are ignored and reported once."""

    def __init__(
        self, broker: Path | None, producer: Path | None, say: Callable[[str], None]
    ) -> None:
        """Raises PlanError for a file that cannot be read."""
        self._files = broker, producer
        self._broker, self._producer = (
            read_properties(path) if path else {} for path in self._files
        )
        self._say = say
        self._reported: set[str] = set()

    def added_to(self, document: Mapping[str, object], plan: Plan) -> dict[str, object]:
        """The plan's document with these settings; the plan's own override them, under any name.

        `plan` is the parsed document. Raises PlanError for an unknown client.
        """
        if self._files == (None, None):
            return dict(document)
        from targets.kafka import configuration
        from targets.kafka.clients import library_of
        from targets.kafka.plan import KafkaPlan

        if not isinstance(plan, KafkaPlan):
            raise PlanError(
                f"{plan.target.system} takes no .properties files",
                key="target.system",
                hint="leave out --broker-settings and --producer-settings",
            )
        library = library_of(plan)
        broker = self._used(self._files[0], self._broker, configuration.why_refused)
        producer = self._used(self._files[1], self._producer, library.why_refused)
        own = {library.same.get(key, key) for key in plan.workload.producer}
        producer = {
            key: value for key, value in producer.items() if library.same.get(key, key) not in own
        }
        with_broker = _with_settings(document, "target", "settings", broker)
        return _with_settings(with_broker, "workload", "producer", producer)

    def _used(
        self, path: Path | None, given: dict[str, str], why_refused: Callable[[str], str | None]
    ) -> dict[str, str]:
        used, ignored = partition(given, why_refused)
        for key, reason in ignored.items():
            sentence = f"{path}: {key} is ignored: {reason}"
            if sentence not in self._reported:
                self._reported.add(sentence)
                self._say(sentence)
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
