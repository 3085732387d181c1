"""The topics that runs create on an external cluster, and remove again."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kafka import errors as theirs

from harness.errors import EnvironmentFailure, HarnessFailure, PlanError
from harness.protocols import Finding, Status
from targets.kafka.configuration import text
from targets.kafka.external.session import Session
from targets.kafka.plan import KafkaPlan

PREFIX: Final = "ackloss-"
"""What the names of all topics of ours begin with."""

_TOPIC_EXISTS, _UNKNOWN_TOPIC = 36, 3
_WRONG: Final = {40: "topic.settings", 44: "topic.settings"}
"""INVALID_CONFIG, POLICY_VIOLATION."""

_POLL_S, _GONE_S, _SETTLE_S = 0.2, 20.0, 10.0
_OBJECT: Final = "topic "


def in_words(topic: str) -> str:
    """A topic as an object of ours: what kind of thing it is, and its name."""
    return f"{_OBJECT}{topic}"


@dataclass(frozen=True)
class Topics:
    """Topics of the cluster of a session. `file` is the one that names the cluster."""

    session: Session
    file: Path

    def make(self, plan: KafkaPlan) -> None:
        """Make the topic of a run. Raises PlanError for settings that the cluster refuses,
        EnvironmentFailure where it makes none."""
        wanted = {
            "num_partitions": plan.topic.partitions,
            "replication_factor": plan.topic.replication_factor,
            "configs": {key: text(value) for key, value in plan.topic.settings.items()},
        }
        answer, again = self._asked_for({plan.topic.name: wanted})
        code, why = answer["error_code"], answer.get("error_message")
        if not code or (again and code == _TOPIC_EXISTS):
            return
        sentence = f"{theirs.for_code(code).__name__}{f': {why}' if why else ''}".rstrip(".")
        if code in _WRONG:
            raise PlanError(f"the cluster refuses the topic: {sentence}", key=_WRONG[code])
        raise self._failure(f"refuses the topic {plan.topic.name}: {sentence}")

    def _asked_for(self, wanted: dict[str, Any]) -> tuple[Any, bool]:
        """The answer about one topic, and whether it was requested more than once."""
        deadline, again = time.monotonic() + _SETTLE_S, False
        while True:
            try:
                answer = self.session.admin.create_topics(wanted, raise_errors=False)
            except theirs.KafkaError as error:
                if not _passes(error) or time.monotonic() > deadline:
                    what = f"makes no topic: {type(error).__name__}: {error}"
                    raise self._failure(what) from error
            else:
                return answer["topics"][0], again
            again = True
            time.sleep(_POLL_S)

    def may_be_made(self) -> Finding:
        """Whether a run could make its topic: one that is validated and not made."""
        what, name = "topic of a run", f"{PREFIX}doctor-{secrets.token_hex(6)}"
        wanted = {name: {"num_partitions": 1, "replication_factor": 1}}
        try:
            answer = self.session.admin.create_topics(
                wanted, validate_only=True, raise_errors=False
            )
        except theirs.IncompatibleBrokerVersion:
            why = "may be made or not: these brokers do not say it without making one"
            return Finding(what, Status.WARN, why)
        except theirs.KafkaError as error:
            why = f"the cluster does not say whether it may be made: {type(error).__name__}"
            return Finding(what, Status.MISSING, why, "run `ackloss doctor --cluster FILE` again")
        if code := answer["topics"][0]["error_code"]:
            fix = f"grant Create and Delete on topics with the prefix {PREFIX}"
            refused = f"the cluster refuses it: {theirs.for_code(code).__name__}"
            return Finding(what, Status.MISSING, refused, fix)
        return Finding(what, Status.OK, "may be made (validated by the cluster; none was made)")

    def ours(self) -> list[str]:
        """Those with the prefix of ours, as objects. Raises EnvironmentFailure."""
        return [in_words(name) for name in sorted(self._names()) if name.startswith(PREFIX)]

    def remove(self, objects: tuple[str, ...], *, dry_run: bool) -> list[str]:
        """Delete these and wait until they are gone; those that were there. Raises
        EnvironmentFailure, and HarnessFailure when one stays."""
        here = {each.removeprefix(_OBJECT) for each in objects} & self._names()
        if here and not dry_run:
            try:
                self._delete(here)
            except theirs.KafkaError as error:
                raise self._silent(error) from error
        return [in_words(name) for name in sorted(here)]

    def _delete(self, names: set[str]) -> None:
        deadline, left, why = time.monotonic() + _GONE_S, set(names), ""
        while left and time.monotonic() < deadline:
            answer = self.session.admin.delete_topics(sorted(left), raise_errors=False)
            codes = {topic["error_code"] for topic in answer["topics"]} - {0, _UNKNOWN_TOPIC}
            why = ", ".join(theirs.for_code(code).__name__ for code in sorted(codes))
            time.sleep(_POLL_S)
            left = names & self._names()
        if left:
            raise HarnessFailure(
                f"the cluster still has {_OBJECT}{', '.join(sorted(left))}: {why or 'no reason'}",
                hint="delete it, or run `ackloss clean --cluster FILE`",
            )

    def _names(self) -> set[str]:
        try:
            return {*self.session.admin.list_topics()}
        except theirs.KafkaError as error:
            raise self._silent(error) from error

    def _silent(self, error: theirs.KafkaError) -> EnvironmentFailure:
        return self._failure(f"does not answer: {type(error).__name__}: {error}")

    def _failure(self, what: str) -> EnvironmentFailure:
        return EnvironmentFailure(f"the cluster {what}", file=str(self.file))


def _passes(error: theirs.KafkaError) -> bool:
    """Whether this may be over soon: brokers that have just started do not all know each other."""
    return bool(error.retriable) or isinstance(error, theirs.UnknownBrokerIdError)
