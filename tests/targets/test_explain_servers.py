"""Why servers that agree by a majority lost what they had acknowledged, of stored real runs: the
lines of their logs, the journal, and a sample of what was acknowledged (`losses/`)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.history import HISTORY
from harness.protocols import UNEXPLAINED, Explanation
from harness.protocols.explanations import DEPOSED, MAJORITY_CAUSES, WITHOUT
from harness.servers import ServerSystem
from targets.etcd import Etcd
from targets.galera import Galera
from targets.nats import Nats
from targets.postgresql import Postgresql
from targets.rabbitmq import RabbitMQ
from targets.redis import Redis
from targets.zookeeper import ZooKeeper
from tests.fixtures.hand_made import write_rows

LOSSES = Path(__file__).parent / "losses"
SYSTEMS: dict[str, ServerSystem[Any]] = {
    "etcd": Etcd(),
    "galera": Galera(),
    "nats": Nats(),
    "postgresql": Postgresql(),
    "rabbitmq": RabbitMQ(),
    "redis": Redis(),
    "zookeeper": ZooKeeper(),
}
CASES = {
    "etcd-power-3.4": {"disk-power": 26},
    "nats-power-2.15": {"disk-power": 26},
    "zookeeper-power-3.9": {"disk-power": 26},
}
STARTS = re.compile(r"starting m|ing quo|Starting nats|messages for stream")
WIPED = "zookeeper-wiped-3.9"
Change = Callable[[dict[str, Any]], None]


def explained(name: str, folder: Path, change: Change = lambda case: None) -> list[Explanation]:
    """What is said of a case, in a run folder with as much as its losses are explained from."""
    case = json.loads((LOSSES / f"{name}.json").read_text())
    change(case)
    folder.mkdir(exist_ok=True)
    addresses = case.get("addresses", {})
    nodes = [{"name": node, "address": addresses.get(node)} for node in case["nodes"]]
    run = {"schema": 1, "wall_time": case["wall_time"], "nodes": nodes}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "plan.json").write_text(json.dumps({"schema": 1, **case["plan"]}))
    journal = "".join(json.dumps(each) + "\n" for each in case["faults"])
    (folder / "faults.jsonl").write_text(journal)
    for log, lines in case["logs"].items():
        (folder / "nodes" / log).parent.mkdir(parents=True, exist_ok=True)
        (folder / "nodes" / log).write_text("".join(f"{line}\n" for line in lines))
    rows = [
        row
        for value, position, begun, done, node in case["acknowledged"]
        for row in (
            {"type": "invoke", "f": "add", "value": value, "time_ns": begun},
            {"type": "ok", "f": "add", "value": value, "offset": position, "time_ns": done}
            | {"node": node},
        )
    ]
    names = ("type", "f", "value", "offset", "node", "time_ns")
    (folder / "history").mkdir()
    columns = pa.schema([HISTORY.field(name) for name in names])
    write_rows(folder / "history/part-00000.parquet", columns, rows)
    return SYSTEMS[case["plan"]["target"]["system"]].explain(folder, pa.table(case["lost"]))


def counted(explanations: list[Explanation]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for each in explanations:
        counts[each.cause] += len(each.values)
    return counts


@pytest.mark.parametrize("name", CASES)
def test_each_lost_write_of_a_real_run_has_its_cause(name: str, tmp_path: Path) -> None:
    found = explained(name, tmp_path)
    assert counted(found) == CASES[name]
    assert set(CASES[name]) <= set(MAJORITY_CAUSES)
    for fact in (fact for each in found for fact in each.facts):
        if fact.source.startswith("log of"):
            log, _, number = fact.place.rpartition(":")
            assert (tmp_path / log).read_text().splitlines()[int(number) - 1]


def test_killed_servers_lose_what_was_only_in_their_memory(tmp_path: Path) -> None:
    """With innodb_flush_log_at_trx_commit = 0, where the server that was ahead began."""
    (each,) = explained("galera-kill-all", tmp_path)
    assert (each.cause, len(each.values)) == ("disk-undisturbed", 22)
    assert [fact.node for fact in each.facts if fact.kind == "elected"] == ["n1", "n2"]
    assert {fact.node for fact in each.facts if fact.kind == "disk"} == {"n1", "n2", "n3"}
    (change,) = each.preventions
    assert change.change == "target.settings.innodb_flush_log_at_trx_commit=1"


def test_one_wiped_disk_lets_a_server_lead_that_never_had_them(tmp_path: Path) -> None:
    """z2, wiped, elects z1, which was down; z3, which had them, comes back too late."""
    (each,) = explained(WIPED, tmp_path)
    assert (each.cause, each.preventions) == ("disk-wiped", ())
    elected = [fact.node for fact in each.facts if fact.kind == "elected"]
    assert elected == ["z2", "z1"]


def test_one_server_that_lost_power_lets_one_lead_that_was_cut_off(tmp_path: Path) -> None:
    """n3, without its disk's last seconds, and n2, which was cut off, are a majority."""
    (each,) = explained("nats-lag-2.15", tmp_path)
    assert (each.cause, len(each.values)) == ("disk-power", 20)
    assert [fact.node for fact in each.facts if fact.kind == "elected"] == ["n1", "n2"]
    assert [fact.node for fact in each.facts if fact.kind == "disk"] == ["n3"]


@pytest.mark.parametrize(("version", "stated"), [("2.12.1", ["always"]), ("2.9", [])])
def test_nothing_is_advised_that_a_version_lacks(
    version: str, stated: list[str], tmp_path: Path
) -> None:
    """NATS 2.9 has no `sync_interval`: a plan with it is refused."""
    (each,) = explained(
        "nats-power-2.15", tmp_path, lambda c: c["plan"]["target"].update(version=version)
    )
    assert [prevention.value for prevention in each.preventions] == stated


def test_without_the_wipe_nobody_knows_who_had_lost_them(tmp_path: Path) -> None:
    """z1 need not have had them: only the journal says that z2's disk had lost them."""

    def not_wiped(case: dict[str, Any]) -> None:
        case["faults"] = [each for each in case["faults"] if each.get("fault") != "wipe"]
        steps = {each.get("n") for each in case["faults"] if each["type"] == "intent"}
        case["faults"] = [each for each in case["faults"] if each.get("n") in {None, *steps}]
        for lines in (case["logs"][name] for name in list(case["logs"]) if "z2/" in name):
            starts = [n for n, line in enumerate(lines) if "Starting quorum" in line]
            del lines[starts[-1]]

    (each,) = explained(WIPED, tmp_path, not_wiped)
    assert each.cause == UNEXPLAINED


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("etcd-power-3.4", "target.settings.unsafe-no-fsync=false"),
        ("nats-power-2.15", "target.sync_interval=always"),
        ("zookeeper-power-3.9", "ensemble.forceSync=true"),
    ],
)
def test_an_fsync_would_have_prevented_it(name: str, change: str, tmp_path: Path) -> None:
    (each,) = explained(name, tmp_path)
    (prevention,) = each.preventions
    assert (prevention.change, prevention.writes) == (change, len(each.values))


@pytest.mark.parametrize("name", CASES)
def test_without_a_fault_of_ours_it_says_so(name: str, tmp_path: Path) -> None:
    found = explained(name, tmp_path, lambda case: case.update(faults=[]))
    assert counted(found) == {"disk-undisturbed": 26}
    assert not found[0].preventions


@pytest.mark.parametrize("name", CASES)
def test_without_logs_nothing_is_guessed(name: str, tmp_path: Path) -> None:
    found = explained(name, tmp_path, lambda case: case.update(logs={}))
    assert counted(found) == {UNEXPLAINED: 26}


@pytest.mark.parametrize("name", CASES)
def test_without_positions_nothing_is_guessed(name: str, tmp_path: Path) -> None:
    def forget(case: dict[str, Any]) -> None:
        for row in case["acknowledged"]:
            row[1] = None

    assert counted(explained(name, tmp_path, forget)) == {UNEXPLAINED: 26}


def never_started_again(case: dict[str, Any]) -> None:
    for lines in case["logs"].values():
        starts = [n for n, line in enumerate(lines) if STARTS.search(line)]
        for number in reversed(starts[1:]):
            del lines[number]


@pytest.mark.parametrize("name", CASES)
def test_what_no_log_lost_is_a_defect_of_the_system(name: str, tmp_path: Path) -> None:
    """The same run, had no server been started again: the leader was elected without them."""

    found = explained(name, tmp_path, never_started_again)
    assert counted(found) == {WITHOUT: 26}
    assert WITHOUT in ServerSystem.defects


@pytest.mark.parametrize("name", CASES)
def test_a_server_without_a_log_leaves_it_unexplained(name: str, tmp_path: Path) -> None:
    """It may be the one whose disk lost them."""

    def silent(case: dict[str, Any]) -> None:
        case["nodes"].append("n9")
        never_started_again(case)

    (each,) = explained(name, tmp_path, silent)
    assert each.cause == UNEXPLAINED
    assert any("no log says what n9 had before" in fact.text for fact in each.facts)


# Of a primary whose replicas copy it.

COPIED = {
    "redis-isolate-leader": "elected-behind",
    "redis-restart-quickly": "came-back-without-them",
    "redis-lag-kill": "elected-stale",
    "redis-restart-then-replaced": "elected-behind",
    "redis-restart-empty-file": "came-back-without-them",
    "postgresql-isolate-leader": "elected-behind",
    "postgresql-cancelled-wait": "elected-behind",
    "rabbitmq-rolling-kill": "promoted-unsynchronised",
}
LATE = {
    "redis-isolate-leader": {"elected-behind-deposed": 10},
    "redis-restart-then-replaced": {"elected-behind-deposed": 11},
}
"""Of a write that began after another server had been elected, that is said."""
CHANGES = {
    "redis-isolate-leader": "workload.wait_replicas=1",
    "redis-restart-quickly": "target.appendonly=always",
    "redis-lag-kill": "workload.wait_replicas=2",
    "redis-restart-then-replaced": "workload.wait_replicas=2",
    "redis-restart-empty-file": "target.appendonly=always",
    "postgresql-isolate-leader": "target.synchronous=strict",
    "postgresql-cancelled-wait": "workload.on_timeout=cut",
    "rabbitmq-rolling-kill": "queue.promote_on_failure=when-synced",
}


@pytest.mark.parametrize("name", COPIED)
def test_what_a_primary_acknowledged_and_replicas_lack_has_its_cause(
    name: str, tmp_path: Path
) -> None:
    found = explained(name, tmp_path)
    late = {each.cause: len(each.values) for each in found if each.cause.endswith(DEPOSED)}
    assert late == LATE.get(name, {})
    assert counted(found) == {COPIED[name]: 12 - sum(late.values()), **late}
    for each in found:
        assert each.cause in SYSTEMS[name.partition("-")[0]].causes
        assert [prevention.change for prevention in each.preventions] == [CHANGES[name]]
        assert {"elected", "truncated"} & {fact.kind for fact in each.facts}
        for fact in (fact for fact in each.facts if fact.source.startswith("log of")):
            log, _, number = fact.place.rpartition(":")
            assert (tmp_path / log).read_text().splitlines()[int(number) - 1]


@pytest.mark.parametrize("name", COPIED)
def test_it_rests_on_logs_positions_and_who_acknowledged(name: str, tmp_path: Path) -> None:
    def forget(column: int) -> Change:
        def change(case: dict[str, Any]) -> None:
            for row in case["acknowledged"]:
                row[column] = None

        return change

    changes: list[Change] = [lambda case: case.update(logs={})]
    changes += [forget(1)] if not name.startswith("rabbitmq") else []
    changes += [forget(4)] if name.startswith("redis") else []
    for number, change in enumerate(changes):
        (tmp_path / str(number)).mkdir()
        assert counted(explained(name, tmp_path / str(number), change)) == {UNEXPLAINED: 12}


@pytest.mark.parametrize(
    ("name", "end", "further"),
    [
        ("redis-isolate-leader", r"up to offset: \d+", "up to offset: 99999999"),
        ("postgresql-isolate-leader", r"redo done at \S+", "redo done at 0/FFFFFFF"),
    ],
)
def test_a_promotion_with_all_of_them_explains_nothing(
    name: str, end: str, further: str, tmp_path: Path
) -> None:
    def change(case: dict[str, Any]) -> None:
        for lines in case["logs"].values():
            lines[:] = [re.sub(end, further, line) for line in lines]

    assert counted(explained(name, tmp_path, change)) == {UNEXPLAINED: 12}


def test_as_many_replicas_are_waited_for_as_others_may_have_had_them(tmp_path: Path) -> None:
    """Neither replica had them: one that confirms is missing. Where the log of one does not show
    that, or shows that it had them, both are waited for."""
    name, asks = "redis-isolate-leader", r"(Trying a partial resynchronization \(request \w+:)\d+"

    def said(change: Callable[[str], str]) -> Change:
        def of(case: dict[str, Any]) -> None:
            for log, lines in case["logs"].items():
                if not log.startswith("n1/"):
                    lines[:] = [change(line) for line in lines]

        return of

    changes = {
        "1": said(str),
        "2": said(lambda line: re.sub(asks, "nothing", line)),
        "2 ": said(lambda line: re.sub(asks, r"\g<1>99999999", line)),
    }
    for wanted, change in changes.items():
        found = explained(name, tmp_path / wanted.replace(" ", "x"), change)
        assert {p.value for each in found for p in each.preventions} == {wanted.strip()}
    sentences = [p.because for each in explained(name, tmp_path / "y") for p in each.preventions]
    assert all(re.fullmatch(r"n\d and n\d never had them", sentence) for sentence in sentences)


def test_all_servers_that_started_without_them_have_lost_them(tmp_path: Path) -> None:
    """No write after the election shows it: the run had ended by then."""
    name = "nats-power-nothing-later-2.12"
    (each,) = explained(name, tmp_path / "all")
    assert (each.cause, len(each.values)) == ("disk-power", 12)

    def one_has_them(case: dict[str, Any]) -> None:
        lines = case["logs"]["n2/console.log"]
        lines[:] = [
            line.replace("Restored 0 messages", "Restored 9,999 messages") for line in lines
        ]

    assert counted(explained(name, tmp_path / "some", one_has_them)) == {UNEXPLAINED: 12}


def test_a_server_that_was_copied_since_its_restart_explains_nothing(tmp_path: Path) -> None:
    """It had what the restarted primary had then, and positions of both are of one log."""

    def copied(case: dict[str, Any]) -> None:
        lines = case["logs"]["n2/console.log"]
        lines[-1] = re.sub(r"offset: \d+", "offset: 99999999", lines[-1])
        lines.insert(-1, re.sub("# Setting .*", "* Successful partial", lines[-1]))

    found = explained("redis-restart-then-replaced", tmp_path, copied)
    assert counted(found) == {UNEXPLAINED: 12}


@pytest.mark.parametrize("name", sorted(file.stem for file in LOSSES.glob("*.json")))
def test_what_survived_has_no_cause(name: str, tmp_path: Path) -> None:
    """The control: what explains a loss does not hold of what was not lost. What was at the head of
    a queue, before the first that is lost, had been dequeued."""

    def survivors(case: dict[str, Any]) -> None:
        lost, rows = {*case["lost"]["value"]}, case["acknowledged"]
        first = min(row[3] for row in rows if row[0] in lost)
        is_queue = "queue" in case["plan"]
        kept = [r for r in rows if r[0] not in lost and not (is_queue and r[3] < first)]
        columns = {"value": 0, "invoke_ns": 2, "complete_ns": 3}
        case["lost"] = {key: [row[number] for row in kept] for key, number in columns.items()}

    assert counted(explained(name, tmp_path, survivors)).keys() <= {UNEXPLAINED}


def without(words: str) -> Change:
    def change(case: dict[str, Any]) -> None:
        for lines in case["logs"].values():
            lines[:] = [line for line in lines if words not in line]

    return change


def test_what_a_server_acknowledged_alone_is_lost_by_autoheal(tmp_path: Path) -> None:
    """From when it went on without both others, which it says of one after the other."""
    name = "rabbitmq-autoheal"
    found = explained(name, tmp_path / "all")
    assert counted(found) == {"restarted-by-autoheal": 25, UNEXPLAINED: 1}
    (each,) = (each for each in found if each.cause != UNEXPLAINED)
    shown = {fact.kind: fact.text for fact in each.facts}
    assert (shown["elected"], each.preventions) == ("n3 promoted its mirror", ())
    assert shown["truncated"] == "n1 was restarted by autoheal"

    def by_hand(case: dict[str, Any]) -> None:
        split = "Mnesia('rabbit@1'): ** ERROR ** mnesia_event got {inconsistent_database, "
        split += "running_partitioned_network, 'rabbit@2'}"
        for lines in case["logs"].values():
            lines[:] = [re.sub("Autoheal: .*", split, line) for line in lines]

    found = explained(name, tmp_path / "by-hand", by_hand)
    assert counted(found) == {"restarted-by-hand": 25, UNEXPLAINED: 1}
    found = explained(name, tmp_path / "on-its-own", without("Autoheal: we were"))
    assert counted(found) == {"joined-another-leader": 25, UNEXPLAINED: 1}
    for words in ("Promoting mirror", "Adding mirror", "' down"):
        found = explained(name, tmp_path / words[:4], without(words))
        assert counted(found) == {UNEXPLAINED: 26}


def test_what_a_server_acknowledged_that_promoted_itself_is_lost_when_it_is_restarted(
    tmp_path: Path,
) -> None:
    """While the old leader went on leading the others. Later all are restarted by hand, and the old
    leader has nothing to give up then. The last write came after a server had joined both sides, so
    that it is not known who had it."""
    name = "rabbitmq-led-alone"
    found = explained(name, tmp_path / "all")
    assert counted(found) == {"restarted-by-hand": 25, UNEXPLAINED: 1}
    (facts,) = (each.facts for each in found if each.cause != UNEXPLAINED)
    assert "n2" in {fact.node for fact in facts if fact.kind == "truncated"}
    assert [fact.node for fact in facts if fact.kind == "elected"] == ["n1"]

    def by_the_old_leader(case: dict[str, Any]) -> None:
        for row in case["acknowledged"]:
            row[4] = "n1"

    found = explained(name, tmp_path / "n1", by_the_old_leader)
    assert counted(found) == {UNEXPLAINED: 26}


PAUSED = "rabbitmq-paused"
OVERWROTE = "rabbitmq-autoheal-overwrote"


def test_a_mirror_that_promoted_itself_before_it_paused_leads_again(tmp_path: Path) -> None:
    """n2, cut off in a minority, promotes its mirror and pauses. n1 and n3 acknowledge without it,
    until n3 is killed and n1 pauses. n2 is back first, and leads with what it had."""
    found = explained(PAUSED, tmp_path / "all")
    assert counted(found) == {"paused-in-minority": 12, "joined-another-leader": 12}
    for each in found:
        assert [fact.node for fact in each.facts if fact.kind == "elected"] == ["n2"]
        assert each.cause in SYSTEMS["rabbitmq"].causes

    def more(line: str, *nodes: str) -> Change:
        def change(case: dict[str, Any]) -> None:
            for node in nodes:
                case["logs"][f"{node}/console.log"].append(f"2026-11-30 03:56:{line}")

        return change

    is_back = more("48.700000+00:00 [info] rabbit on node 'rabbit@198.18.84.12' up", "n1", "n3")
    joined = "55.000000+00:00 [info] Adding mirror on node 'rabbit@198.18.84.12': <0.2.0>"
    one_keeps_them = without("on node 'rabbit@198.18.84.11': <0")
    for number, change in enumerate((is_back, more(joined, "n2"), one_keeps_them)):
        found = explained(PAUSED, tmp_path / f"{number}", change)
        assert counted(found) == {UNEXPLAINED: 24}


def test_the_winner_of_autoheal_is_given_an_empty_mirror(tmp_path: Path) -> None:
    """n2 had promoted itself and won; n1, which was restarted, led the queue again all the same."""
    (each,) = explained(OVERWROTE, tmp_path / "all")
    assert (each.cause, len(each.values)) == ("joined-another-leader", 12)
    (led,) = (fact for fact in each.facts if fact.kind == "elected")
    (got,) = (fact for fact in each.facts if fact.kind == "in sync" and fact.node == "n2")
    assert (led.node, got.source, got.place) == ("n1", "log of n1", led.place)
    alone = explained(OVERWROTE, tmp_path / "alone", without("'rabbit@198.18.0.12': <12"))
    assert counted(alone) == {UNEXPLAINED: 12}


def test_a_mirror_that_its_leader_has_filled_had_them(tmp_path: Path) -> None:
    def filled(case: dict[str, Any]) -> None:
        line = "2026-11-28 19:17:00.000000+00:00 [info] queue 'ackloss' in vhost '/': "
        case["logs"]["n3/console.log"].append(f"{line}Synchronising: complete")

    found = explained("rabbitmq-rolling-kill", tmp_path, filled)
    assert counted(found) == {UNEXPLAINED: 12}


def test_a_standby_that_had_no_power_then_never_had_them(tmp_path: Path) -> None:
    """Its disk lost nothing of what was acknowledged since, without it."""
    counts = counted(explained("postgresql-lag-power-loss", tmp_path))
    assert counts == {"elected-behind": 12}


def test_a_primary_that_lost_power_and_loads_its_file_lost_them_there(tmp_path: Path) -> None:
    def power(case: dict[str, Any]) -> None:
        for each in case["faults"]:
            each.update({"nemesis": "power-loss"} if each["type"] == "step" else {})
        loads = "117:M 28 Nov 2026 18:37:25.858 * DB loaded from append only file: 0.1 seconds"
        lines = case["logs"]["n1/console.log"]
        (last,) = [
            n for n, line in enumerate(lines) if line.startswith("117:M") and "initial" in line
        ]
        lines.insert(last + 1, loads)

    assert counted(explained("redis-restart-quickly", tmp_path, power)) == {"disk-power": 12}
