"""What the protocol lever takes for a proof, by what a node says of its proxy and its redirect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from harness.errors import HarnessFailure
from harness.faults.records import ProtocolRecord
from harness.levers import protocol
from harness.levers.protocol import CHAIN, ProtocolLever, Requests, hits_of
from harness.protocols import Completed, Node

REDIRECTED = f"-A PREROUTING ! -i lo -j {CHAIN}\n-A {CHAIN} -p tcp --dport 70 --to-ports 10070"
LISTENS = "LISTEN 0 512 *:10070 *:*"
RECORD = ProtocolRecord(node="a", fault="x", act="reset", side="answer", apis=("Write",))
WORDS = Requests(apis={"Read": 1, "Write": 2}, codes={"FULL": 9}, ports=lambda _: (70,))


@dataclass
class Said(Node):
    """A node that says what a test has it say."""

    state: str | None = "port 70 2:12\n"
    nat: str | None = REDIRECTED
    listening: str = LISTENS
    name: str = "a"
    written: dict[str, bytes] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)

    def admin(self, argv: Sequence[str], *, timeout_s: float = 10) -> Completed:
        if argv[0] == "rm":
            self.removed.append(argv[-1])
        said = {"cat": self.state, "test": self.nat, "iptables": self.nat, "ss": self.listening}
        output = said.get(argv[0], "")
        return Completed(1 if output is None else 0, output or "")

    def put(self, files: Mapping[str, bytes]) -> None:
        self.written.update(files)


Said.__abstractmethods__ = frozenset()  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in ("_TAKEN_S", "_STARTS_S"):
        monkeypatch.setattr(protocol, limit, 0)


def lever(node: Node, words: Requests = WORDS) -> ProtocolLever:
    return ProtocolLever({"a": node}, words)


def test_hits_are_the_proof_and_are_named() -> None:
    node = Said(state="rule x 2:12 7:1\nport 70 1:3 2:12 7:1\n")
    proof = lever(node).probe(RECORD, applied=True)
    assert (proof.proven, proof.met) == (True, 13)
    assert proof.evidence == [
        "a: its proxy reset the connection instead of 13 answers (Write 12, API 7 1)"
    ]
    assert hits_of(node) == {"x": {2: 12, 7: 1}}


def test_a_rule_that_met_nothing_has_met_nothing() -> None:
    proof = lever(Said(state="rule x\nport 70 1:3\n")).probe(RECORD, applied=True)
    assert (proof.proven, proof.met) == (True, 0), "the mechanism stands: `held` will not be proven"
    assert "no answers" in proof.evidence[0]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"state": "port 70\n"}, "does not have the rule"),
        ({"state": None}, "does not have the rule"),
        ({"nat": None}, "port 70 is not redirected"),
        ({"nat": REDIRECTED.splitlines()[1]}, "port 70 is not redirected"),
        ({"nat": REDIRECTED.replace("10070", "10071")}, "port 70 is not redirected"),
        ({"listening": LISTENS.replace("10070", "1007")}, "no proxy listens at port 10070"),
    ],
)
def test_a_proxy_that_meets_nothing_proves_nothing(said: dict[str, str | None], why: str) -> None:
    node = Said(**{"state": "rule x 2:12\n", **said})  # type: ignore[arg-type]
    proof = lever(node).probe(RECORD, applied=True)
    assert not proof.proven
    assert why in " ".join(proof.evidence)


def test_undone_is_a_proxy_without_the_rule() -> None:
    assert lever(Said(state="rule y\n")).probe(RECORD, applied=False).proven
    assert not lever(Said(state="rule x\n")).probe(RECORD, applied=False).proven
    assert lever(Said(state="rule x\nrule y 1:2\n")).leftover_state(Said(state="rule y\n")) == [
        "a: the proxy's rule of fault y"
    ]


def test_what_was_not_prepared_is_refused() -> None:
    assert lever(Said()).unavailable(Said(), RECORD) is None
    why = lever(Said()).unavailable(Said(state=None), RECORD)
    assert why == "a has no proxy: it was not started for such a fault"
    nobody = Requests(apis={}, codes={}, ports=lambda _: ())
    assert lever(Said(), nobody).unavailable(Said(state=None), RECORD) is None
    with pytest.raises(HarnessFailure, match="no requests to meet"):
        lever(Said(), nobody).apply(RECORD)
    with pytest.raises(HarnessFailure, match="did not start"):
        lever(Said()).prepare(Said(state=None))


def test_a_rule_is_a_file_in_numbers() -> None:
    node = Said()
    lever(node).apply(RECORD)
    ((name, text),) = node.written.items()
    assert name == "proxy/rules/x"
    assert dict(line.split("=", 1) for line in text.decode().splitlines()) == {
        "act": "reset",
        "side": "answer",
        "apis": "2",
        "client": "",
        "subjects": "",
        "peers": "",
        "others": "",
        "share": "1.0",
        "first": "0",
        "ms": "-1",
        "code": "0",
        "seed": "0",
        "whole": "yes",
    }
    lever(node).undo(RECORD)
    assert node.removed == ["/var/lib/ackloss/proxy/rules/x"]


@pytest.mark.parametrize(
    ("of", "subjects"),
    [
        ({"topic": "t"}, "t,id-of-t"),
        ({"below": "/a\\b"}, "/a\\\\b"),
        ({}, ""),
    ],
)
def test_a_rule_names_a_topic_by_all_its_names_or_a_path(of: dict[str, str], subjects: str) -> None:
    node, words = Said(), replace(WORDS, other_names=lambda topic: (f"id-of-{topic}",))
    lever(node, words).apply(replace(RECORD, **of))
    assert f"subjects={subjects}\n".encode() in node.written["proxy/rules/x"]
