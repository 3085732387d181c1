"""What the client family promises: real producers against librdkafka's own test cluster, in this
process; no Kafka, no containers. What real brokers keep is shown by plans/faults/."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition

from harness import registry
from harness.errors import EnvironmentFailure, HarnessFailure, PlanError
from harness.faults.injection import Faults
from harness.faults.journal import Journal, OpenActs, open_acts, windows
from harness.faults.records import ClientRecord, from_document, to_document
from harness.levers.client import ClientLever
from harness.levers.commands import poll_until
from harness.plan import Plan, parse_plan
from harness.protocols import INFO, Act, Completion, Situation, completion, invoke
from harness.protocols.clock import RunClock
from harness.protocols.faults import ClientNemesis, Crashes
from harness.run.load import LoadReport, run_workload
from harness.run.preview import dry_run
from harness.run.recorder import Recorder
from harness.run.resolving import ResolvedPlan, resolve
from harness.run.runner import levers_of
from harness.run.schedule import Schedule
from targets.kafka.clients.librdkafka import CRASHED, KafkaClient, Librdkafka, LibrdkafkaProducer
from tests.fixtures.dry_run import DryRunCluster
from tests.fixtures.producing import NOBODY, WRITERS, Writer, addresses_of, mock_cluster, writing
from tests.fixtures.virtual import VirtualClient

pytestmark = pytest.mark.real_time

LINGERS = {"linger.ms": 30_000, "message.timeout.ms": 60_000}
"""Keeps what producers take under way."""
NAMES = ["client-1", "client-2", "client-3"]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"clients": "all"},
    {"clients": [3, 1]},
    {"replaced": "at-once"},
    {"clients": "all", "replaced": "at-once"},
]


def plan_for(*faults: dict[str, Any], producer: dict[str, Any] | None = None, **load: Any) -> Plan:
    return parse_plan(
        {
            "schema": 1,
            "name": "t",
            "target": {"version": "4.3.1"},
            "topic": {"partitions": 4},
            "workload": {"clients": 3, **load, "producer": producer or {}},
            "faults": [{"nemesis": "client", **fault} for fault in faults],
        }
    )


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Addresses of three brokers that live inside this process."""
    with mock_cluster() as owner:
        owner.list_topics("ackloss", timeout=10)
        yield addresses_of(owner)


class PolledByAThread:
    """A client that its own thread polls, as the interpreter does."""

    def __init__(self, client: KafkaClient) -> None:
        self.client = client
        self.ended: dict[int, Completion] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _poll(self) -> None:
        while not self._stop.is_set():
            self.client.poll(0.05, self._done)
        self.client.close(0.1, self._done)

    def _done(self, process: int, ended: Completion) -> None:
        assert process not in self.ended, "completed twice"
        self.ended[process] = ended

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def library(request: pytest.FixtureRequest) -> Writer:
    """librdkafka in this process; or where a test says so, also kafka-python in processes."""
    return cast("Writer", getattr(request, "param", WRITERS[0]))


BOTH = pytest.mark.parametrize(
    "library", WRITERS, indirect=True, ids=lambda library: library.plugin
)


@pytest.fixture
def client(library: Writer, brokers: str) -> Iterator[KafkaClient]:
    """Three producers with three writes under way in each."""
    client = writing(library, brokers, plan_for(producer=LINGERS))
    for process in range(9):
        assert poll_until(
            lambda process=process: client.submit(process, invoke("append", process, 0)), within_s=9
        )
    with closing(PolledByAThread(client)):
        yield client


@pytest.fixture
def faults(client: KafkaClient, tmp_path: Path) -> Faults:
    return faults_of(client, tmp_path, RunClock())


def faults_of(client: KafkaClient, folder: Path, clock: RunClock) -> Faults:
    journal = Journal(folder / "faults.jsonl", clock.now_ns)
    return Faults({"client": ClientLever(client)}, journal)


def acts(options: dict[str, Any], seed: int = 1) -> list[Act]:
    nemesis: ClientNemesis = registry.make("nemeses", "client", options, key="nemesis")
    assert isinstance(nemesis, ClientNemesis)
    return nemesis.client_acts(NAMES, random.Random(seed))


def crash(act: Act, fault: str = "") -> ClientRecord:
    """The record of an act, as one of this fault."""
    assert isinstance(act.record, ClientRecord)
    return replace(act.record, fault=fault)


def injected(faults: Faults, fault: str, options: dict[str, Any]) -> list[int]:
    """Inject it; the numbers of the clients that it meets."""
    chosen = acts(options)
    names = [act.record.node for act in chosen]
    faults.journal.write("step", fault=fault, nemesis="client", nodes=names, met=None, why="")
    faults.inject(fault, "client", chosen)
    return [crash(act).client for act in chosen]


def ids(client: KafkaClient) -> list[str | None]:
    return [client.state(number, "").alive for number in (1, 2, 3)]


FIRST = ["ackloss-1.1", "ackloss-2.1", "ackloss-3.1"]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_records_are_plain_data_and_the_same_for_the_same_seed(options: dict[str, Any]) -> None:
    chosen = acts(options)
    assert chosen
    for record in (crash(act, "x") for act in chosen):
        assert from_document(ClientRecord, json.loads(json.dumps(to_document(record)))) == record
        assert record.node == f"client-{record.client}"
    assert chosen == acts(options)


def test_one_is_drawn_from_the_seed() -> None:
    met = Counter(crash(act).client for seed in range(60) for act in acts({}, seed))
    assert set(met) == {1, 2, 3}


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"clients": []}, "different numbers"),
        ({"clients": [0]}, "different numbers"),
        ({"clients": [2, 2]}, "different numbers"),
        ({"clients": [1, 4]}, "there is no client 4: workload.clients is 3"),
        ({"replaced": "never"}, "at-once"),
        ({"nodes": "role:broker"}, "client meets clients, not nodes"),
    ],
)
def test_wrong_options_are_refused_with_one_sentence(options: dict[str, Any], why: str) -> None:
    with pytest.raises(PlanError, match=why) as refused:
        resolve(plan_for({"id": "x", **options}))
    assert refused.value.key is not None
    assert refused.value.key.startswith("faults.x")


def test_a_dry_run_says_in_words_what_would_happen() -> None:
    steps = [{"id": "a", "clients": [2]}, {"id": "b", "clients": [1, 3], "replaced": "at-once"}]
    first, second = dry_run(resolve(plan_for(*steps)))["faults"]
    assert first["nodes"] == "client-2"
    assert first["commands"] == ["client-2: client (client = 2, at_once = false)"]
    assert second["nodes"] == "client-1, client-3"
    assert all("at_once = true" in reported for reported in second["commands"])


def test_a_target_whose_clients_cannot_crash_is_refused() -> None:
    resolved, plain = resolve(plan_for({"id": "x"})), VirtualClient()
    with pytest.raises(EnvironmentFailure, match="the clients of kafka cannot crash one by one"):
        levers_of(resolved, DryRunCluster({}), plain)
    levers_of(resolve(plan_for()), DryRunCluster({}), plain)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_it_is_proven_on_and_proven_off_and_leaves_nothing(
    client: KafkaClient, faults: Faults, tmp_path: Path, options: dict[str, Any]
) -> None:
    assert isinstance(client, Crashes)
    at_once = options.get("replaced") == "at-once"
    met = injected(faults, "x", options)
    now = ids(client)
    for number in (1, 2, 3):
        crashed = f"ackloss-{number}.2" if at_once else None
        assert now[number - 1] == (crashed if number in met else FIRST[number - 1])
    faults.heal("x")
    after = ids(client)
    assert after == [f"ackloss-{n}.{2 if n in met else 1}" for n in (1, 2, 3)]
    faults.heal("x")
    faults.heal_all()
    assert ids(client) == after
    (window,) = windows(tmp_path / "faults.jsonl")
    assert window.proven, window.evidence
    assert "crashed with 3 operations in flight, now unknown; no thread" in window.evidence[0]
    assert open_acts(tmp_path / "faults.jsonl") == OpenActs()


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_healing_what_was_never_injected_is_harmless(
    client: KafkaClient, faults: Faults, options: dict[str, Any]
) -> None:
    for act in acts(options):
        faults.levers[act.lever].undo(crash(act, "never"))
    assert ids(client) == FIRST


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_crashing_twice_for_one_fault_crashes_once(
    client: KafkaClient, options: dict[str, Any]
) -> None:
    lever = ClientLever(client)
    for act in acts(options) * 2:
        lever.apply(crash(act, "x"))
    met = [crash(act).client for act in acts(options)]
    again = "ackloss-{}.2" if options.get("replaced") else None
    for number in met:
        assert ids(client)[number - 1] == (again.format(number) if again else None)


def do_nothing(*_: Any, **__: Any) -> None:
    """Says that it was done."""


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(
    "broken",
    [(KafkaClient, "crash"), (KafkaClient, "_crash"), (LibrdkafkaProducer, "end")],
    ids=["crash", "_crash", "end"],
)
def test_a_client_that_does_nothing_is_found_out(
    faults: Faults,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    broken: tuple[type, str],
) -> None:
    monkeypatch.setattr(*broken, do_nothing)
    monkeypatch.setattr("harness.levers.client._MADE_S", 0.1)
    injected(faults, "x", options)
    (window,) = windows(tmp_path / "faults.jsonl")
    assert not window.proven, window.evidence


def test_a_client_that_nobody_replaces_is_found_out(
    client: KafkaClient, faults: Faults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaClient, "_replace", do_nothing)
    monkeypatch.setattr("harness.levers.client._MADE_S", 0.1)
    injected(faults, "x", {"clients": "all"})
    assert windows(tmp_path / "faults.jsonl")[0].proven
    faults.heal("x")
    (window,) = windows(tmp_path / "faults.jsonl")
    assert not window.proven, window.evidence


@BOTH
def test_healing_one_of_two_overlapping_faults_leaves_the_other(
    client: KafkaClient, faults: Faults, tmp_path: Path
) -> None:
    injected(faults, "first", {"clients": [2]})
    injected(faults, "second", {"clients": "all"})
    faults.heal("first")
    assert ids(client) == [None, None, None]
    faults.heal("second")
    poll_until(lambda: None not in ids(client), within_s=20)
    assert ids(client) == ["ackloss-1.2", "ackloss-2.2", "ackloss-3.2"]
    first, second = windows(tmp_path / "faults.jsonl")
    assert first.proven, first.evidence
    assert "also kept dead by second" in first.evidence[-1]
    assert not second.proven, "one of the three was dead before"
    assert "no client was there to crash" in second.evidence[1]


def test_undone_from_a_journal_by_another_process_it_is_harmless_and_says_so(
    client: KafkaClient,
) -> None:
    """There the clients are others, and nobody needs to check them."""
    record = crash(acts({"clients": [2]})[0], "x")
    ClientLever(client).apply(record)
    other = Librdkafka().producing(NOBODY, plan_for())
    lever = ClientLever(other)
    lever.undo(from_document(ClientRecord, to_document(record)))
    proof = lever.probe(record, applied=False)
    assert proof.proven
    assert proof.evidence == ["client-2: none crashed by this fault; ackloss-2.1 is there"]
    assert ids(other) == FIRST
    other.close(0, do_nothing)


def test_a_client_that_nobody_plays_is_waited_for_only_so_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.run.client_pool.HANDED_OVER_S", 0.1)
    client = Librdkafka().producing(NOBODY, plan_for())
    with pytest.raises(HarnessFailure, match=r"the clients were not polled for 0\.1 s"):
        client.crash(1, "x", at_once=False)
    client.poll(0, do_nothing)
    assert ids(client) == FIRST, "what nobody waits for any more is not done"
    client.close(0, do_nothing)
    with pytest.raises(HarnessFailure, match="the clients are closed"):
        client.crash(1, "x", at_once=False)


def test_a_client_that_reaches_nobody_crashes_too() -> None:
    client = Librdkafka().producing(NOBODY, plan_for())
    with closing(PolledByAThread(client)):
        client.crash(1, "x", at_once=False)
        deadline = time.monotonic() + 4
        while (death := client.state(1, "x").death) is None or not death.gone:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert ids(client) == [None, *FIRST[1:]]


def test_while_all_are_dead_nothing_is_taken_and_polling_waits(
    library: Writer, brokers: str
) -> None:
    client = writing(library, brokers, plan_for(producer=LINGERS))
    with closing(PolledByAThread(client)) as polled:
        assert client.submit(1, invoke("append", 1, 0))
        for number in (1, 2, 3):
            client.crash(number, "x", at_once=False)
        assert not client.submit(2, invoke("append", 2, 0))
        polled.close()
        assert polled.ended == {1: completion(INFO, error=CRASHED)}
        began, used = time.monotonic(), time.thread_time()
        client.poll(0.3, do_nothing)
        assert time.monotonic() - began >= 0.29
        assert time.thread_time() - used < 0.02, "it spins instead of waiting"


def read(brokers: str) -> list[int]:
    """Every value that the brokers have."""
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "g", "log_level": 0})
    places = [TopicPartition("ackloss", p) for p in range(4)]
    ends = [consumer.get_watermark_offsets(place, timeout=10)[1] for place in places]
    consumer.assign([TopicPartition("ackloss", p.partition, 0) for p in places])
    values: list[int] = []
    while len(values) < sum(ends):
        values += [int(message.value() or b"") for message in consumer.consume(1000, timeout=1)]
    consumer.close()
    return values


@BOTH
def test_what_was_queued_in_a_client_that_crashed_is_never_sent(
    library: Writer, brokers: str
) -> None:
    """It would have been sent half a second later; the others' is."""
    first = 10_000 * (1 + WRITERS.index(library))  # what the other wrote is there too
    values = range(first, first + 300)
    client = writing(library, brokers, plan_for(producer={"linger.ms": 500}))
    with closing(PolledByAThread(client)) as polled:
        for process in values:
            assert client.submit(process, invoke("append", process, process % 4))
        client.crash(2, "x", at_once=True)
        deadline = time.monotonic() + 10
        while len(polled.ended) < 300:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1)
    crashed = {process for process, ended in polled.ended.items() if ended[2] == CRASHED}
    assert crashed == {process for process in values if process % 3 == 1}
    there = [value for value in read(brokers) if value in values]
    assert sorted(there) == sorted(set(values) - crashed)


class Blind:
    """An observer that sees nothing."""

    def situation(self) -> Situation:
        return Situation(time_ns=0)

    def begun(self) -> bool:
        return True


def run_load(
    library: Writer, brokers: str, folder: Path, plan: Plan
) -> tuple[LoadReport, pd.DataFrame, ResolvedPlan]:
    """Run a plan's workload and faults, without a cluster."""
    resolved, clock, client = resolve(plan), RunClock(), writing(library, brokers, plan)
    with Recorder(folder, run_id="r") as recorder:
        schedule = Schedule(
            plan, resolved.steps, {}, faults_of(client, folder, clock), Blind(), clock
        )
        with schedule.running():
            report = run_workload(
                resolved.workload,
                client,
                plan=plan,
                recorder=recorder,
                clock=clock,
                stop=threading.Event(),
                before_drain=schedule.finish,
            )
    return report, pq.read_table(sorted(folder.glob("*.parquet"))).to_pandas(), resolved


@pytest.mark.parametrize(
    ("idempotent", "rate_per_s"),
    [(True, 500), pytest.param(False, 0, marks=pytest.mark.full)],
)
def test_every_operation_that_was_taken_is_completed_once_and_the_load_goes_on(
    library: Writer, brokers: str, tmp_path: Path, rate_per_s: int, idempotent: bool
) -> None:
    plan = plan_for(
        {"id": "one", "at_s": 0.5, "for_s": 0.5},
        {"id": "at-once", "after_s": 3, "clients": "all", "replaced": "at-once", "for_s": 0.1},
        {"id": "all", "after_s": 3, "clients": "all", "for_s": 1},
        producer={"linger.ms": 100, "enable.idempotence": idempotent},
        rate_per_s=rate_per_s,
        duration_s=17,  # on a busy machine new clients have needed 4 s
        processes=600,
    )
    report, rows, _ = run_load(library, brokers, tmp_path, plan)
    found = windows(tmp_path / "faults.jsonl")
    assert [window.id for window in found if window.proven] == ["one", "at-once", "all"], found
    assert found[2].nodes == NAMES
    begun, ended = rows[rows.type == "invoke"], rows[rows.type != "invoke"]
    assert report.attempted == len(begun) == len(ended)
    assert begun.value.is_unique
    assert ended.value.is_unique
    unknown = ended[ended.type == "info"]
    assert (unknown.error == CRASHED).all()
    assert len(unknown) == sum(
        int(sentence.split(" crashed with ")[1].split()[0])
        for window in found
        for sentence in window.evidence[: len(window.nodes)]
    )
    for process in unknown.process:
        last = rows[rows.process == process].iloc[-1]
        assert last.type == "info", "a retired process goes on"
    dead_ns = (found[2].from_s or 0) * 1e9
    after = begun[begun.time_ns > dead_ns]
    assert after.time_ns.min() - dead_ns > 0.9e9, "while all were dead, none was begun"
    assert len(after) > 100, "new clients carry the load"
    dead_for_s = 1
    may_wait_s = dead_for_s / 10 + report.held_up_s  # for a machine that held the load up
    assert report.not_run <= rate_per_s * may_wait_s, "what was due meanwhile is begun later"
    if rate_per_s:
        assert (after.time_ns - after.intended_ns).max() > 0.9e9, "what was due while all were dead"
    there = read(brokers)
    acknowledged = set(ended[ended.type == "ok"].value)
    assert acknowledged <= set(there)
