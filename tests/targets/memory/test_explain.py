"""The causes of what the reference system loses: each defect's losses have that defect's cause, and
what is said agrees with what the simulation itself did, followed value by value.

2 seeds each, so that the fast tests stay fast; `make e2e` runs 200.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from harness.clusters.memory.node import Disk, File
from harness.faults.records import DiskRecord
from harness.protocols import Act, Explanation
from targets.memory.explain import CAUSES, DEFECTS, explain
from targets.memory.leading import Leading
from targets.memory.plan import EARLY_ACK, FORGETFUL, NO_EPOCHS, ROLLBACK, UNCLEAN, Settings
from tests.fixtures.budget import budget
from tests.targets.memory.scenarios import SCENARIOS, Scenario
from tests.targets.memory.world import MS, World, appends

pytestmark = pytest.mark.slow

SEEDS = range(budget(2, 200))
CAUSE_OF = {
    EARLY_ACK: ("before-replication", "reachable-leader"),
    UNCLEAN: ("unclean-election", "lagging"),
    NO_EPOCHS: ("truncated-without-epochs", "reachable-leader"),
    FORGETFUL: ("discarded-by-new-leader", "kills"),
    ROLLBACK: ("unconfirmed-in-sync", "reachable-leader"),
}


class Watched(World):
    """A run that is followed value by value: `led` is what the log of each leader held when it
    began, by node and epoch, `gone` what was removed from a node's log: by which function, when."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.led: dict[int, tuple[str, set[int]]] = {}
        self.gone: dict[int, list[tuple[str, str, int]]] = {}
        self.journal: list[dict[str, Any]] = []

    def fault(self, act: Act, from_ns: int, for_ns: int) -> None:
        super().fault(act, from_ns, for_ns)
        fault, node = f"f{self._fault_count}", act.record.node
        known = {"fault": fault, "nemesis": act.lever, "nodes": [node]}
        token = {"node": node, "fault": fault}
        intent = {"n": self._fault_count, "fault": fault, "lever": act.lever, "token": token}
        self.journal += [
            {"type": "step", **known, "met": None, "why": "", "time_ns": from_ns},
            {"type": "intent", **intent, "time_ns": from_ns},
            {"type": "on", "fault": fault, "time_ns": from_ns},
            {"type": "healed", "fault": fault, "time_ns": from_ns + for_ns},
        ]

    def removed(self, file: File, count: int, by: str) -> None:
        for node in self.cluster.nodes.values():
            if any(each is file for each in node.disk.files.values()):
                for entry in file.records[count:]:
                    if (value := getattr(entry, "value", None)) is not None:
                        seen = (node.name, by, self.cluster.simulation.now_ns)
                        self.gone.setdefault(value, []).append(seen)

    def folder(self, folder: Path) -> pa.Table:
        """Its run folder, as far as its losses are explained from it, and what it lost."""
        run = {"schema": 1, "wall_time": "2026-01-01T00:00:00+00:00", "zero_ns": 0}
        faults = [{"id": each["fault"], "form": "unsynced"} for each in self.journal[::4]]
        plan = {"schema": 1, "faults": faults, "target": {"system": "memory"}}
        for name, document in {"run": run, "plan": plan}.items():
            (folder / f"{name}.json").write_text(json.dumps(document))
        journal = "".join(json.dumps(each) + "\n" for each in self.journal)
        (folder / "faults.jsonl").write_text(journal)
        for node in self.cluster.nodes.values():
            (folder / "nodes" / node.name).mkdir(parents=True)
            lines = "".join(f"{line}\n" for line in node.printed)
            (folder / "nodes" / node.name / "node.log").write_text(lines)
        rows, lost = [], []
        kept = {value for _, _, value in self.run.held[self.leader()]}
        for op in self.run.ops:
            value, outcome = op.command.value, op.outcome
            rows.append({"type": "invoke", "f": "append", "value": value, "time_ns": op.begun_ns})
            if outcome is not None and outcome.type == "ok":
                place = {"offset": outcome.position, "node": outcome.node, "time_ns": op.ended_ns}
                rows.append({"type": "ok", "f": "append", "value": value, **place})
                if value not in kept:
                    times = {"invoke_ns": op.begun_ns, "complete_ns": op.ended_ns}
                    lost.append({"value": value, "partition": 0, **times})
        (folder / "history").mkdir()
        names = ("type", "f", "value", "offset", "node", "time_ns")
        texts = {"type", "f", "node"}
        schema = pa.schema([(n, pa.string() if n in texts else pa.int64()) for n in names])
        table = pa.Table.from_pylist(rows, schema=schema)
        pq.write_table(table, folder / "history/part-00000.parquet")
        columns = ("value", "partition", "invoke_ns", "complete_ns")
        return pa.table({name: [each[name] for each in lost] for name in columns})


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> list[Watched]:
    """The world that is followed, once it is put here."""
    here: list[Watched] = []
    begin, cut, wipe = Leading.__init__, File.cut, Disk.wipe

    def begins(leading: Leading, node: Any, settings: Any, stored: Any, *rest: Any) -> None:
        values = {each.value for each in stored.log.entries if each.value is not None}
        here[-1].led[rest[0].epoch] = (node.name, values)
        begin(leading, node, settings, stored, *rest)

    def cuts(file: File, count: int) -> None:
        here[-1].removed(file, count, sys._getframe(1).f_code.co_name)
        cut(file, count)

    def wipes(disk: Disk, folder: str) -> None:
        for path in disk.below(folder):
            here[-1].removed(disk.files[path], 0, "wipe")
        wipe(disk, folder)

    monkeypatch.setattr(Leading, "__init__", begins)
    monkeypatch.setattr(File, "cut", cuts)
    monkeypatch.setattr(Disk, "wipe", wipes)
    return here


def blackout(world: World) -> None:
    """All replicas lose power at once."""
    for name in world.settings.names:
        record = DiskRecord(
            node=name,
            signal="KILL",
            pid=1,
            form="unsynced",
            folders=("data/[!_]*-[0-9]*",),
            keep_share=world.seed % 2 / 2,
        )
        world.at(1_200 * MS, world.fault, Act("disk", record), 1_200 * MS, 300 * MS)


def found_in(
    world: list[Watched], folder: Path, scenario: Scenario, settings: Settings, seed: int
) -> Counter[str]:
    """The causes of what one run lost; what is said agrees with what was seen."""
    run = Watched(seed, settings, appends)
    world.append(run)
    run.simulate(scenario)
    folder.mkdir()
    lost = run.folder(folder)
    explanations = explain(folder, lost)
    values = [value for each in explanations for value in each.values]
    assert sorted(values) == sorted(lost["value"].to_pylist())
    counts: Counter[str] = Counter()
    for each in explanations:
        counts[each.cause] += len(each.values)
        for value in each.values:
            agrees(run, each, value)
    assert explain(folder, lost) == explanations
    return counts


def agrees(run: Watched, said: Explanation, value: int) -> None:
    """The value was in the log of every leader up to the one that dropped it, and that one's node
    had lost it before or never had had it, as the cause says."""
    assert said.dropped_by is not None
    assert said.epoch is not None
    node, held = run.led[said.dropped_by]
    assert value not in held
    for epoch in range(said.epoch + 1, said.dropped_by):
        if epoch in run.led:
            assert value in run.led[epoch][1]
    by = {how for where, how, _ in run.gone.get(value, ()) if where == node}
    if said.cause == "discarded-by-new-leader":
        assert "truncate" in by
    elif said.cause == "disk-power":
        assert any(how == "lose_power" for _, how, _ in run.gone[value])


@pytest.mark.parametrize("commit", ["quorum", "isr"])
@pytest.mark.parametrize("defect", CAUSE_OF)
def test_what_a_defect_loses_has_its_cause(
    world: list[Watched], tmp_path: Path, defect: str, commit: Any
) -> None:
    cause, scenario = CAUSE_OF[defect]
    total: Counter[str] = Counter()
    for seed in SEEDS:
        settings = Settings(commit=commit, defects=frozenset({defect}))
        total += found_in(world, tmp_path / str(seed), SCENARIOS[scenario], settings, seed)
    print(defect, commit, dict(total))
    assert set(total) == {cause}
    assert cause in DEFECTS


@pytest.mark.parametrize("commit", ["quorum", "isr"])
def test_what_power_takes_from_disks_without_fsync(
    world: list[Watched], tmp_path: Path, commit: Any
) -> None:
    total: Counter[str] = Counter()
    for seed in SEEDS:
        settings = Settings(commit=commit, fsync="never")
        total += found_in(world, tmp_path / str(seed), blackout, settings, seed)
    print(commit, dict(total))
    assert set(total) == {"disk-power"}
    assert "disk-power" in CAUSES.keys() - DEFECTS


@pytest.mark.parametrize("commit", ["quorum", "isr"])
@pytest.mark.parametrize("scenario", ["storm", "power", "reachable-leader"])
def test_without_a_defect_nothing_is_lost_or_explained(
    world: list[Watched], tmp_path: Path, scenario: str, commit: Any
) -> None:
    for seed in SEEDS:
        settings = Settings(commit=commit)
        assert not found_in(world, tmp_path / str(seed), SCENARIOS[scenario], settings, seed)
