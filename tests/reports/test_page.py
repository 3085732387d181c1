"""The page as a file: its contents, its security, and its size."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.errors import HistoryError
from harness.history.run_folder import RunDir
from reports.page import write_report
from tests.fixtures.pictures import drawn
from tests.fixtures.synthetic_run import Story, build

pytestmark = [pytest.mark.slow, pytest.mark.pages, pytest.mark.usefixtures("undrawn")]


class Parsed(HTMLParser):
    """Tags with their attributes, scripts and styles, and the visible text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: list[tuple[str, dict[str, str | None], str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.raw.append((tag, dict(attrs), ""))
        if tag not in ("meta", "img", "link", "br", "rect"):
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag
        if tag not in ("a", "b", "bdi", "code", "span", "strong", "kbd"):
            self.text += " "

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] in ("script", "style"):
            tag, attributes, before = self.raw[-1]
            self.raw[-1] = (tag, attributes, before + data)
        elif self._open[-1:] != ["title"]:
            self.text += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", self.text).strip()


def parsed(run: RunDir) -> Parsed:
    return Parsed(run.report.read_text(encoding="utf-8"))


def policy(page: Parsed) -> dict[str, str]:
    (meta,) = (m for m in page.named("meta") if m.get("http-equiv") == "Content-Security-Policy")
    return dict(part.strip().split(" ", 1) for part in (meta["content"] or "").split(";"))


@pytest.mark.parametrize("name", ["unclean", "hostile", "stopped"])
def test_the_policy_allows_one_style_one_script_and_nothing_else(
    runs: dict[str, RunDir], name: str
) -> None:
    page = parsed(runs[name])
    allowed = policy(page)
    assert allowed["default-src"] == "'none'"
    assert allowed["img-src"] == "data:"
    assert set(allowed) == {
        "default-src", "style-src", "script-src", "img-src", "base-uri", "form-action"
    }  # fmt: skip
    data, script = (raw for raw in page.raw if raw[0] == "script")
    (style,) = (raw for raw in page.raw if raw[0] == "style")
    assert data[1] == {"type": "application/json", "id": "data"}
    for (_, _, text), key in ((script, "script-src"), (style, "style-src")):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert allowed[key] == f"'sha256-{digest}'"


@pytest.mark.parametrize("name", ["unclean", "hostile", "stopped"])
def test_nothing_is_loaded(runs: dict[str, RunDir], name: str) -> None:
    page = parsed(runs[name])
    for tag, attributes in page.tags:
        assert not {"style", "onclick", "onerror", "onload"} & set(attributes), tag
        for key in ("src", "srcset", "data", "action", "poster"):
            assert (attributes.get(key) or "data:").startswith("data:"), (tag, key)
    assert {a["href"] for a in page.named("a")} <= {"#timeline", "lost.csv", "timeline.png"}
    assert not page.named("link")


def test_untrusted_text_is_text(runs: dict[str, RunDir]) -> None:
    page = parsed(runs["hostile"])
    assert len([raw for raw in page.raw if raw[0] == "script"]) == 2
    assert all((img["src"] or "").startswith("data:") for img in page.named("img"))
    seen = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=2>"
    assert page.words.count(seen + "\\u001b[31m\\u202eevil\\u2066 $\\frac{1$ {{ 7*7 }}") >= 6
    whole = runs["hostile"].report.read_bytes()
    assert b"\x1b" not in whole
    assert "\u202e".encode() not in whole
    (data, _) = (raw[2] for raw in page.raw if raw[0] == "script")
    assert "<" not in data
    assert json.loads(data)[0]["title"].startswith("</script>")


def test_the_result_comes_first(runs: dict[str, RunDir]) -> None:
    text = parsed(runs["unclean"]).words
    order = [
        "invalid", "842 of 3,995 acknowledged writes were lost (21.1 %)",
        "acks=all, enable.idempotence=false, min.insync.replicas=1, "
        "unclean.leader.election.enable=true, kafka 4.3.1, 3 brokers, replication factor 3",
        "Rates", "3,995 of 4,000 attempted writes", "842 of 3,995 acknowledged writes",
        "1 found without acknowledgement, for 3,995 acknowledged",
        "Timeline", "Showing all 4,000 writes", "Lost writes", "first of 842", "last of 842",
        "Faults and their proof", "412 packets dropped", "Node logs during the run",
        "Shrinking ISR from 3,1,2 to 3", "Availability", "3.50 s",
        "Settings and who decided them", "the plan", "Run it again", "ackloss run --seed 2013",
        "seed 2013", "confluent-kafka 2.16.1", "sha256:0f0f",
    ]  # fmt: skip
    place = text.index("Skip to the timeline")
    for sentence in order:
        found = text.find(sentence, place)
        assert found >= 0, f"{sentence!r} is missing or out of order"
        place = found


def test_it_shows_when_each_client_lost_writes(runs: dict[str, RunDir]) -> None:
    """Only partition 0 loses writes; its processes, 0 and 3, belong to the first client."""
    text = parsed(runs["unclean"]).words
    place = text.index("Losses by client")
    for sentence in (
        "all 842 6.00 s to 31.23 s 9.50 s to 31.23 s 0.00 s after cut began "
        "1.23 s after cut and isolate were healed",
        "client-1 842 6.00 s", "client-2 0 —", "client-3 0 —", "22.00 s b1 took over",
    ):  # fmt: skip
        place = text.index(sentence, place)
    assert "Losses by client" not in parsed(runs["safe"]).words


def test_it_shows_error_codes_and_the_load_during_each_fault(runs: dict[str, RunDir]) -> None:
    page = parsed(runs["unclean"]).words
    unknown = runs["unclean"].read_json(runs["unclean"].result)["counts"]["unknown"]
    assert f"Unknown with: _MSG_TIMED_OUT {unknown}." in page
    assert "writes begun" in page
    assert "1,234" in page


def test_unknown_never_looks_good(runs: dict[str, RunDir]) -> None:
    page = parsed(runs["unknown"])
    classes = {tag.get("class") or "" for _, tag in page.tags}
    assert "verdict verdict-unknown" in classes
    assert not any("verdict-valid" in name for name in classes)
    assert "It is not known whether acknowledged writes were lost" in page.words
    assert "lost unknown 0 of 3,153 acknowledged writes were not found" in page.words
    assert "✕ NOT PROVEN" in page.words
    assert "this run proves nothing" in page.words


def test_a_valid_run_with_proven_faults_is_shown_as_valid(runs: dict[str, RunDir]) -> None:
    page = parsed(runs["safe"])
    assert "None of 3,153 acknowledged writes was lost" in page.words
    assert "NOT PROVEN" not in page.words
    assert any("verdict-valid" in (tag.get("class") or "") for _, tag in page.tags)


def test_it_says_which_leaders_each_fault_met_and_when_none_was_made(tmp_path: Path) -> None:
    run = build(tmp_path, Story(rate_per_s=10))
    document = run.read_json(run.result)
    first, second = (fault["id"] for fault in document["faults"][:2])
    leaders = [
        {"fault": first, "leaders": ["b1"], "met": True, "partitions": [0]},
        {"fault": second, "leaders": ["b2"], "met": False, "partitions": []},
    ]
    run.write_json(run.result, {**document, "leaders": leaders, "cautions": ["no cut met one"]})
    write_report(run)
    words = parsed(run).words
    assert words.count("met the leader of: p0") == words.count("met the leader of: none") == 1
    assert "Caution. No cut met one." in words
    assert "no fault was made" not in words
    control = [{**document["faults"][0], "proven": False, "control": True}]
    for faults in ([], control):
        run.write_json(run.result, {**document, "faults": faults})
        write_report(run)
        assert "%); no fault was made" in parsed(run).words


def test_an_interrupted_run_is_marked_at_the_top(runs: dict[str, RunDir]) -> None:
    text = parsed(runs["stopped"]).words
    assert text.index("This run was interrupted") < text.index("This run has not been checked")
    assert "No verdict" in text
    assert "No write was attempted." in text
    assert "survived" not in text
    assert not runs["stopped"].lost_csv.exists(), "an empty table would mean that nothing was lost"


def test_survival_is_not_claimed_for_a_run_without_a_verdict(tmp_path: Path) -> None:
    run = build(tmp_path, Story(rate_per_s=10))
    run.result.unlink()
    for part in run.findings.iterdir():
        part.unlink()
    write_report(run)
    assert "survived" not in parsed(run).words
    (data, _) = (raw[2] for raw in parsed(run).raw if raw[0] == "script")
    assert json.loads(data)[0]["outcomes"][0]["label"] == "acknowledged"


def rewritten(run: RunDir, **changes: Any) -> Parsed:
    result = run.read_json(run.result)
    for key, value in changes.items():
        result[key] = {**result[key], **value} if isinstance(value, dict) else value
    run.write_json(run.result, result)
    write_report(run)
    return parsed(run)


def test_a_rate_without_a_denominator_is_not_defined(tmp_path: Path) -> None:
    none = dict.fromkeys(("attempted", "acknowledged", "failed", "unknown", "lost"), 0)
    page = rewritten(
        build(tmp_path, Story(rate_per_s=5)),
        verdict="unknown",
        reason="nothing was acknowledged",
        counts={**none, "survivors": 0, "unacknowledged_found": 0, "unknown_found": 0},
        rates=dict.fromkeys(("ack", "loss", "unacknowledged_success")),
    )
    assert page.words.count("not defined") >= 3


def test_counts_of_incomplete_evidence_are_lower_bounds(tmp_path: Path) -> None:
    page = rewritten(build(tmp_path, Story(rate_per_s=10)), complete=False)
    assert "The counts below are lower bounds" in page.words
    assert re.search(r"at least \d+ of \d+ acknowledged writes", page.words)


def test_a_pruned_run_has_no_timeline_and_still_its_writes(tmp_path: Path) -> None:
    run = build(tmp_path, Story(rate_per_s=5))
    for name in ("history", "reads", "observations", "nodes"):
        shutil.rmtree(run.path / name)
    write_report(run)
    words = parsed(run).words
    assert "The history of this run is not here" in words
    assert "No write was attempted" not in words


def test_a_setting_with_another_effective_value_is_marked(tmp_path: Path) -> None:
    run = build(tmp_path, Story(rate_per_s=5))
    facts = run.read_json(run.run)
    facts["settings"]["effective"]["topic"]["min.insync.replicas"] = "2"
    run.write_json(run.run, facts)
    write_report(run)
    page = parsed(run)
    assert "min.insync.replicas 2 ✕ 1 was requested" in page.words
    assert page.words.count("was requested") == 1


def test_the_page_says_who_decided_each_setting_and_what_came_of_the_users_files(
    tmp_path: Path,
) -> None:
    run = build(tmp_path, Story(rate_per_s=5))
    facts = run.read_json(run.run)
    facts["settings"]["effective"]["producer"]["message.timeout.ms"] = "8000"
    facts["settings"] |= {
        "origins": {
            "topic": {"min.insync.replicas": "yours: server.properties"},
            "producer": {"message.timeout.ms": "set by ackloss"},
        },
        "shortened": {"producer": {"message.timeout.ms": "120000"}},
    }
    facts["yours"] = {
        "expected": "valid",
        "files": [
            {
                "option": "broker-settings",
                "file": "/etc/kafka/server.properties",
                "keys": [
                    {"key": "min.insync.replicas", "state": "used", "value": 1},
                    {"key": "num.io.threads", "state": "overruled", "value": 9, "why": "--set"},
                    {"key": "listeners", "state": "not applicable", "why": "ackloss sets it"},
                    {"key": "vendor.x", "state": "unknown", "why": "no version has it"},
                ],
            }
        ],
    }
    run.write_json(run.run, facts)
    write_report(run)
    words = parsed(run).words
    for sentence in (
        "server.properties: 1 key used, 1 overruled by --set, 1 not applicable, 1 unknown",
        "Expected: nothing. The plan expects valid of its own settings",
        "topic min.insync.replicas 1 yours: server.properties",
        "producer message.timeout.ms 8000 set by ackloss; default 120000",
        "Time-outs are shorter here than the system's own",
        "num.io.threads 9 overruled by --set",
        "listeners not kept not applicable: ackloss sets it",
    ):
        assert sentence in words, sentence


def test_all_lost_writes_are_in_the_csv(runs: dict[str, RunDir]) -> None:
    with runs["unclean"].lost_csv.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 842
    assert len({row["value"] for row in rows}) == 842


def test_a_lost_value_that_is_not_known_is_a_dash(tmp_path: Path) -> None:
    run = build(tmp_path, Story(rate_per_s=50))
    table = pq.read_table(run.loss)
    beyond = pa.array([2**64 - 1] * len(table), pa.uint64())
    place = table.schema.get_field_index("value")
    pq.write_table(table.set_column(place, "value", beyond), run.loss)
    write_report(run)
    page = parsed(run).words
    assert re.search(r"during fault \d+ first of \d+ — \d+ \d+", page)
    assert "9223372036854775808" not in page


def test_many_partitions_are_cut_with_a_note(runs: dict[str, RunDir]) -> None:
    page = parsed(runs["partitions"])
    assert "the lanes show 3 of 7 partitions: those with the most lost writes" in page.words
    (data, _) = (raw[2] for raw in page.raw if raw[0] == "script")
    assert [p["id"] for p in json.loads(data)[0]["partitions"]][:2] == [0, 1]


@pytest.mark.full
def test_two_million_writes_make_a_small_page(tmp_path: Path) -> None:
    run = build(tmp_path, Story(name="big", rate_per_s=50_000))
    with drawn():
        write_report(run)
    assert run.report.stat().st_size < 2_000_000
    assert re.search(r"Showing [\d,]+ marks for 2,000,000 writes", parsed(run).words)


def test_a_run_without_its_documents_is_rejected(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path, "run")
    with pytest.raises(HistoryError, match=r"run\.json"):
        write_report(run)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("result.json", b'{"schema": 1, "verdict": "valid"}'),
        ("result.json", b'{"schema": 9}'),
        (
            "result.json",
            b'{"schema": 1, "verdict": "invalid", "counts": {"acknowledged": 0, "lost": 5}, '
            b'"checks": [{"name": "loss", "verdict": "", "details": {"confirmed": {"lost": 5}}}]}',
        ),
        ("run.json", b'{"schema": 1, "versions": [1], "nodes": 3}'),
        ("run.json", b"not JSON"),
        ("plan.json", b'{"schema": 1, "target": "kafka"}'),
        ("faults.jsonl", b'{"type": "step", "fault": "x"}'),
    ],
)
def test_malformed_documents_are_reported_in_one_sentence(
    tmp_path: Path, name: str, body: bytes
) -> None:
    run = build(tmp_path, Story(rate_per_s=5))
    (run.path / name).write_bytes(body)
    with pytest.raises(HistoryError, match=str(run.path)):
        write_report(run)
    assert not run.report.exists()


def test_the_same_run_gives_the_same_page(runs: dict[str, RunDir]) -> None:
    before = runs["unclean"].report.read_bytes()
    with drawn():
        write_report(runs["unclean"])
    assert runs["unclean"].report.read_bytes() == before
