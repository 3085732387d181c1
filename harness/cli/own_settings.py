"""A user's own server.properties and producer.properties, as settings of a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harness.cli.properties import read_properties, sort_out
from harness.errors import PlanError
from harness.plan import Plan


class OwnSettings:
    """Both files, read once; what a plan cannot take of them is said once and named."""

    def __init__(
        self, broker: Path | None, producer: Path | None, say: Callable[[str], None]
    ) -> None:
        """Raises PlanError for a file that cannot be read."""
        self._files = broker, producer
        self._broker, self._producer = (
            read_properties(path) if path else {} for path in self._files
        )
        self._say = say
        self._said: set[str] = set()

    def added_to(self, document: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
        """The plan's document with these settings; its own win, under whatever name.

        `plan` is the document as it was parsed. Raises PlanError for an unknown client.
        """
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
        broker = self._taken(self._files[0], self._broker, configuration.why_refused)
        producer = self._taken(self._files[1], self._producer, library.why_refused)
        own = {library.same.get(key, key) for key in plan.workload.producer}
        producer = {
            key: value for key, value in producer.items() if library.same.get(key, key) not in own
        }
        target, workload = document.get("target", {}), document.get("workload", {})
        return {
            **document,
            "target": {**target, "settings": {**broker, **target.get("settings", {})}},
            "workload": {**workload, "producer": {**producer, **workload.get("producer", {})}},
        }

    def _taken(
        self, path: Path | None, given: dict[str, str], why_refused: Callable[[str], str | None]
    ) -> dict[str, str]:
        taken, aside = sort_out(given, why_refused)
        for key, reason in aside.items():
            sentence = f"{path}: {key} is set aside: {reason}"
            if sentence not in self._said:
                self._said.add(sentence)
                self._say(sentence)
        return taken
