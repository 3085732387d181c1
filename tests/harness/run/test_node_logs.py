"""The logs of nodes: those that cannot be had, and the sentence that a failed start leaves."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import ackloss
from harness.errors import HarnessFailure
from harness.protocols import Completed, Node, OwnConnection
from harness.run.runner import last_words, logs_of, monotonic_ns_of
from tests.fixtures.bare_target import BareTarget
from tests.fixtures.dry_run import DryRunNode
from tests.fixtures.memory_plans import SHORT
from tests.fixtures.planting import Plant

EXPIRED = "org.apache.zookeeper.KeeperException$SessionExpiredException: Session expired"
LOG = f"""[2026-11-22 08:15:10,790] INFO [ZooKeeperClient Kafka server] Session expired.
[2026-11-22 08:15:10,892] ERROR Fatal error during KafkaServer startup (kafka.server.KafkaServer)
{EXPIRED}
\tat org.apache.zookeeper.KeeperException.create(KeeperException.java:130)
\tat kafka.zookeeper.AsyncResponse.resultException(ZooKeeperClient.scala:576)
[2026-11-22 08:15:10,900] INFO shutting down (kafka.server.KafkaServer)
"""


TROUBLE = (
    "b1: [2026-11-22 08:15:10,892] ERROR Fatal error during KafkaServer startup "
    f"(kafka.server.KafkaServer) | b1: {EXPIRED}"
)


@pytest.mark.parametrize(
    ("log", "said"), [(LOG, TROUBLE), ("INFO started\n", "no error in it")], ids=["trouble", "none"]
)
def test_the_last_trouble_is_reported_without_frames_of_a_stack_trace(
    tmp_path: Path, log: str, said: str
) -> None:
    (tmp_path / "b1").mkdir()
    (tmp_path / "b1" / "server.log").write_text(log)
    assert last_words(tmp_path) == said


class Logging(BareTarget):
    """A target whose logs are what it is given, or what that raises."""

    plugin = "logging"

    def __init__(self, given: Any) -> None:
        self.given = given

    def logs(self, node: Node) -> dict[str, bytes]:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given  # type: ignore[no-any-return]


class Printing:
    """A cluster whose processes print, or of which that is not known."""

    def __init__(self, given: bytes | Exception | None) -> None:
        self.given = given

    def output(self, node: Node) -> bytes | None:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def kept(logs: Any, printed: bytes | Exception | None) -> tuple[dict[str, bytes], list[str]]:
    node = DryRunNode("b1", frozenset(), "198.18.0.11")
    return logs_of(node, Logging(logs), Printing(printed))  # type: ignore[arg-type]


def test_logs_and_what_is_printed_are_kept() -> None:
    assert kept({"data/server.log": b"x"}, b"y") == ({"server.log": b"x", "console.log": b"y"}, [])
    assert kept({}, None) == ({}, [])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (KeyError("server"), "KeyError: 'server'"),
        (HarnessFailure("b1 does not answer"), "not all logs of b1 were kept: b1 does not answer"),
        (None, "logs() returns None: should be a valid dictionary"),
        ({"server.log": "x"}, "server.log should be a valid bytes"),
    ],
)
def test_logs_that_cannot_be_had_are_a_sentence_and_the_others_are_kept(
    given: object, why: str
) -> None:
    logs, (sentence,) = kept(given, b"y")
    assert logs == {"console.log": b"y"}
    assert sentence.startswith("not all logs of b1 were kept: ")
    assert why in sentence
    logs, (sentence,) = kept({"server.log": b"x"}, OSError("gone"))
    assert logs == {"server.log": b"x"}
    assert sentence.endswith("OSError: gone")
    assert len(kept(KeyError(), OSError())[1]) == 2


class Elsewhere(DryRunNode):
    """A node on another machine, which is up for as long as it says."""

    own_connection = OwnConnection(peer="198.18.0.1", port=22)

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        return Completed(0, "350735.47 234388.90\n")


def test_a_sampler_on_another_machine_has_the_monotonic_clock_of_that_machine() -> None:
    assert monotonic_ns_of(Elsewhere("h1", frozenset(), "198.18.0.11")) == 350735_470_000_000
    before_ns = time.monotonic_ns()
    assert monotonic_ns_of(DryRunNode("b1", frozenset(), "198.18.0.11")) >= before_ns


LOGS = '''
from targets.memory import Memory

@dataclass(frozen=True)
class Mute(Memory):
    """Mute."""

    plugin: ClassVar[str] = "mute"

    def logs(self, node):
        return {"n.log": b"x"}[node.name]
'''


def test_a_run_whose_logs_cannot_be_had_is_judged_and_warns(plant: Plant, tmp_path: Path) -> None:
    plant(LOGS, targets_mute="Mute")
    run = ackloss.run("memory/log", set={**SHORT, "target.system": "mute"}, out=tmp_path)
    document = json.loads((run.path / "run.json").read_text())
    assert (document["state"], document["error"]) == ("done", None)
    warnings = [each for each in document["warnings"] if "logs" in each]
    assert len(warnings) == len(document["nodes"]) > 1
    head = "not all logs of n1 were kept: the target 'mute' failed in logs() (planted_"
    assert warnings[0].startswith(head)
    assert warnings[0].endswith("KeyError: 'n1'")
    assert run.result.reason == ackloss.run("memory/log", set=SHORT, out=tmp_path).result.reason
