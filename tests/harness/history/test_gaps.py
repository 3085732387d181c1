"""Damage to a stored real run, to each kind of its files: noticed, and said of the right part."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from checkers.judging.one_run import judge_run
from harness.errors import HistoryError
from harness.history.manifest import gaps, write_manifest
from harness.history.parquet_reader import Parts
from harness.history.run_folder import RunDir
from harness.protocols import Gaps, Promises
from tests.fixtures.hand_made import E, Made, R, W

pytestmark = pytest.mark.slow

STORED = Path(__file__).parents[2] / "histories" / "runs"
LOSSY, DUPLICATED = "unclean-election-loses", "idempotent-producer-duplicates"

Damage = Callable[[RunDir], object]


def copy_of(name: str, parent: Path) -> RunDir:
    """A stored run, with a log of a node."""
    rundir = RunDir(parent / name)
    shutil.copytree(STORED / name, rundir.path)
    log = rundir.node("b1") / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text("INFO started\n")
    write_manifest(rundir, run_id_of(rundir))
    return rundir


def run_id_of(rundir: RunDir) -> str:
    return str(rundir.read_json(rundir.run)["run_id"])


def gaps_of(rundir: RunDir) -> Gaps:
    ends = pq.read_table(rundir.ends).to_pylist() if rundir.ends.exists() else []
    return gaps(rundir, rundir.read_json(rundir.run), Parts.of(rundir), ends)


# --- damage -----------------------------------------------------------------------------------


def delete(*names: str) -> Damage:
    def damage(rundir: RunDir) -> None:
        for name in names:
            (rundir.path / name).unlink()

    return damage


def part(folder: str, number: int) -> str:
    return f"{folder}/part-{number:05d}.parquet"


def cut_rows(name: str) -> Damage:
    """Valid Parquet, with half of its rows."""

    def damage(rundir: RunDir) -> None:
        table = pq.read_table(rundir.path / name)
        pq.write_table(table.slice(0, len(table) // 2), rundir.path / name)

    return damage


def cut_line(name: str, number: int) -> Damage:
    """Half of one line is missing, and all others are there."""

    def damage(rundir: RunDir) -> None:
        lines = (rundir.path / name).read_bytes().splitlines(keepends=True)
        line = lines[number - 1]
        lines[number - 1] = line[: len(line) // 2] + b"\n"
        (rundir.path / name).write_bytes(b"".join(lines))

    return damage


def edit(name: str, column: str) -> Damage:
    """One value of one row is another."""

    def damage(rundir: RunDir) -> None:
        table = pq.read_table(rundir.path / name)
        values = table[column].to_pylist()
        values[1 if len(values) > 1 else 0] += 7
        place = table.schema.get_field_index(column)
        field = table.schema.field(place)
        pq.write_table(
            table.set_column(place, field, pa.array(values, field.type)), rundir.path / name
        )

    return damage


def duplicate(name: str, as_name: str) -> Damage:
    return lambda rundir: shutil.copy(rundir.path / name, rundir.path / as_name)


def rename(name: str, to: str) -> Damage:
    return lambda rundir: (rundir.path / name).rename(rundir.path / to)


def swap(name: str) -> Damage:
    """The same file of another run."""
    return lambda rundir: shutil.copy(STORED / DUPLICATED / name, rundir.path / name)


def overwrite(name: str, what: bytes, by: bytes) -> Damage:
    def damage(rundir: RunDir) -> None:
        content = (rundir.path / name).read_bytes()
        assert what in content
        (rundir.path / name).write_bytes(content.replace(what, by, 1))

    return damage


def cut_off(name: str) -> Damage:
    return lambda rundir: os.truncate(rundir.path / name, (rundir.path / name).stat().st_size - 9)


# Named: what is done, in which field of Gaps it is noticed, a word of the sentence.
BY_MANIFEST: dict[str, tuple[Damage, str, str]] = {
    "history: parts 1 to 5 deleted": (
        delete(*(part("history", n) for n in range(1, 6))),
        "history",
        "missing: history/part-00001.parquet (813 rows)",
    ),
    "history: last part deleted": (delete(part("history", 8)), "history", "part-00008"),
    "history: rows cut": (cut_rows(part("history", 3)), "history", "(393 rows, not 787)"),
    "history: a value edited": (edit(part("history", 3), "value"), "history", "not as the run"),
    "history: a part twice": (
        duplicate(part("history", 3), part("history", 9)),
        "history",
        "not of this run: history/part-00009.parquet",
    ),
    "history: a part renamed": (
        rename(part("history", 3), part("history", 9)),
        "history",
        "missing: history/part-00003.parquet",
    ),
    "history: a part of another run": (swap(part("history", 3)), "history", "not as the run"),
    "reads: deleted": (delete(part("reads", 0)), "reads", "(1,381 rows)"),
    "reads: second reader deleted": (delete(part("reads", 1)), "reads", "part-00001"),
    "reads: rows cut": (cut_rows(part("reads", 0)), "reads", "(690 rows, not 1,381)"),
    "reads: a value edited": (edit(part("reads", 0), "value"), "reads", "not as the run"),
    "reads: a part twice": (duplicate(part("reads", 0), part("reads", 2)), "reads", "not of this"),
    "reads: of another run": (swap(part("reads", 0)), "reads", "not as the run"),
    "ends: deleted": (delete("reads/ends.parquet"), "reads", "missing: reads/ends.parquet (2 rows"),
    "ends: a position edited": (edit("reads/ends.parquet", "position"), "reads", "ends.parquet"),
    "ends: of another run": (swap("reads/ends.parquet"), "reads", "not as the run"),
    "journal: deleted": (delete("faults.jsonl"), "other", "missing: faults.jsonl"),
    "journal: cut off": (cut_off("faults.jsonl"), "other", "faults.jsonl"),
    "journal: a proof edited": (
        overwrite("faults.jsonl", b'"proven":true', b'"proven":null'),
        "other",
        "not as the run wrote it: faults.jsonl",
    ),
    "journal: of another run": (swap("faults.jsonl"), "other", "faults.jsonl"),
    "plan: edited": (overwrite("plan.json", b'"acks"', b'"ackz"'), "other", "plan.json"),
    "plan: of another run": (swap("plan.json"), "other", "plan.json"),
    "metadata: edited": (
        overwrite("run.json", b'"attempted": 3400', b'"attempted": 3300'),
        "other",
        "not as the run wrote it: run.json",
    ),
    "metadata: of another run": (swap("run.json"), "other", "of another run: manifest.json"),
    "manifest: deleted": (delete("manifest.json"), "reads", "missing: manifest.json"),
    "log: deleted": (delete("nodes/b1/server.log"), "aside", "missing: nodes/b1/server.log"),
    "log: cut": (cut_off("nodes/b1/server.log"), "aside", "nodes/b1/server.log"),
    "observations: deleted": (delete(part("observations", 1)), "aside", "observations/part-00001"),
    "observations: cut off": (cut_off(part("observations", 1)), "aside", "(damaged)"),
    "observations: twice": (
        duplicate(part("observations", 1), part("observations", 99)),
        "aside",
        "not of this run",
    ),
}


@pytest.mark.parametrize("name", [LOSSY, DUPLICATED])
def test_an_untouched_run_has_no_gaps(name: str, tmp_path: Path) -> None:
    found = gaps_of(copy_of(name, tmp_path))
    assert found == Gaps()
    assert not found


@pytest.mark.parametrize("name", BY_MANIFEST)
def test_damage_is_noticed_by_the_manifest(name: str, tmp_path: Path) -> None:
    damage, field, words = BY_MANIFEST[name]
    rundir = copy_of(LOSSY, tmp_path)
    damage(rundir)
    _noticed(gaps_of(rundir), field, words)


def _noticed(found: Gaps, field: str, words: str) -> None:
    reported = getattr(found, field)
    assert any(words in sentence for sentence in reported), found
    assert bool(found) is (field != "aside"), "what lies aside is no doubt, all else is"
    assert all(sentence in found.sentences for sentence in reported) or field == "aside"


def test_what_people_do_to_a_folder_leaves_no_gap(tmp_path: Path) -> None:
    there = copy_of(LOSSY, tmp_path)
    copied = RunDir(tmp_path / "another name")
    shutil.copytree(there.path, copied.path)
    copied.write_json(copied.result, {"schema": 1})
    copied.findings.mkdir(exist_ok=True)
    copied.loss.write_bytes(b"written again by every check")
    (copied.path / "notes.txt").write_text("my own")
    (copied.history / ".part-00009.parquet.partial").write_bytes(b"never finished")
    assert gaps_of(copied) == Gaps()


@pytest.mark.parametrize("state", ["preparing", "running", "reading", "interrupted", "failed"])
def test_a_run_that_never_ended_has_no_manifest_to_miss(state: str, tmp_path: Path) -> None:
    # Its state says so, and is doubt enough.
    rundir = copy_of(LOSSY, tmp_path)
    rundir.manifest.unlink()
    rundir.write_json(rundir.run, {**rundir.read_json(rundir.run), "state": state})
    assert gaps_of(rundir) == Gaps()


@pytest.mark.parametrize(
    "manifest",
    [
        b"{",
        b"[]",
        b'{"schema": 1}',
        b'{"schema": 1, "run_id": "r"}',
        b'{"schema": 2, "run_id": "r", "files": []}',
        b'{"schema": 1, "run_id": "r", "files": [{"path": "plan.json"}]}',
        b'{"schema": 1, "run_id": "r", "files": 3}',
        b'{"schema": 1, "run_id": "r", "files": [{"path": "plan.json", "bytes": "1", '
        b'"sha256": "", "rows": null}]}',
        *(
            b'{"schema": 1, "run_id": "r", "files": [{"path": "%s", "bytes": 1, "sha256": "", '
            b'"rows": null}]}' % name
            for name in (b"/etc/passwd", b"history/../../x", b"result.json", b"history")
        ),
    ],
)
def test_a_damaged_manifest_is_refused(manifest: bytes, tmp_path: Path) -> None:
    rundir = copy_of(LOSSY, tmp_path)
    rundir.manifest.write_bytes(manifest)
    with pytest.raises(HistoryError) as caught:
        gaps_of(rundir)
    assert caught.value.file == str(rundir.manifest)


def test_a_partition_that_was_passed_has_records_unless_nothing_was_acknowledged_in_it(
    tmp_path: Path,
) -> None:
    ends = (E(partition=0, position=5, reader="a"), E(partition=1, position=5, reader="a"))
    reads = (R(value=1, partition=0, offset=0, reader="a"),)

    def reported(name: str, *writes: W) -> tuple[str, ...]:
        plan = {"topic": {"partitions": 2}}
        made = Made(writes=(W(1), *writes), reads=reads, ends=ends, plan=plan)
        return gaps_of(made.build(tmp_path, name)).reads

    here = ("reads/ holds no record of partition 1 by the reader a, which read it to offset 5",)
    assert reported("acknowledged", W(2, partition=1)) == here
    assert reported("at-an-offset", W(2, partition=1, offset=4)) == here
    assert reported("markers-alone", W(2, "i", partition=1)) == ()
    assert reported("beyond", W(2, partition=1, offset=5)) == ()
    assert reported("elsewhere", W(2, partition=0)) == ()


def test_a_log_of_no_offsets_needs_no_records(tmp_path: Path) -> None:
    made = Made(writes=[W(1)], ends=[E(position=0), E(position=None), E(position=7, start=7)])
    assert gaps_of(made.build(tmp_path, "empty")) == Gaps()


def test_statistics_say_of_a_named_history_what_was_never_recorded(tmp_path: Path) -> None:
    # The recorder itself lost a part before the manifest was written.
    rundir = copy_of(LOSSY, tmp_path)
    (rundir.path / part("history", 8)).unlink()
    write_manifest(rundir, run_id_of(rundir))
    assert gaps_of(rundir).history == (
        "history/ holds 6,479 rows, too few for the 3,400 operations that run.json counted",
    )
    (rundir.path / part("history", 0)).unlink()
    write_manifest(rundir, run_id_of(rundir))
    assert "operations 0 to 801 are missing before" in gaps_of(rundir).history[0]


def test_a_journal_that_was_damaged_before_it_was_named_is_noticed(tmp_path: Path) -> None:
    # The disk was full for a moment, and took half a line.
    rundir = copy_of(LOSSY, tmp_path)
    cut_line("faults.jsonl", 4)(rundir)
    write_manifest(rundir, run_id_of(rundir))
    assert gaps_of(rundir).other == ("faults.jsonl is damaged: line 4",)


PROOF = {"type": "proof", "fault": "kill", "proven": True, "evidence": [], "time_ns": 9}
JOURNAL: tuple[dict[str, Any], ...] = (
    {"type": "step", "fault": "kill", "nemesis": "kill", "met": None, "time_ns": 0},
    {"type": "intent", "n": 1, "fault": "kill", "lever": "process", "time_ns": 0},
    {"type": "on", "fault": "kill", "time_ns": 0},
    {**PROOF, "phase": "held"},
    {"type": "healed", "fault": "kill", "time_ns": 9},
    {**PROOF, "phase": "undone"},
)


def valid_run(parent: Path) -> RunDir:
    readers = ("a", "b")
    rundir = Made(
        writes=[W(n, offset=n) for n in range(8)],
        reads=[R(n, offset=n, reader=reader) for reader in readers for n in range(8)],
        ends=[E(position=8, reader=reader) for reader in readers],
        plan={"faults": [{"id": "kill", "nemesis": "kill", "at_s": 0}]},
        journal=JOURNAL,
    ).build(parent, "valid")
    log = rundir.node("b1") / "server.log"
    log.parent.mkdir(parents=True)
    log.write_text("INFO started\n")
    write_manifest(rundir, rundir.run_id)
    return rundir


def verdict_of(rundir: RunDir) -> tuple[str, int]:
    """The verdict and how many writes are lost; a folder that is refused says neither."""
    try:
        document = judge_run(rundir)
    except HistoryError:
        return "refused", 0
    assert document["complete"] is (document["verdict"] != "unknown")
    return document["verdict"], document["counts"]["lost"]


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


HARM: dict[str, Callable[[Path], object]] = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "cut": lambda path: os.truncate(path, path.stat().st_size - 1),
    "grown": lambda path: path.write_bytes(path.read_bytes() + b"\n"),
    "flipped": flip,
    "renamed": lambda path: path.rename(path.with_name(f"old-{path.name}")),
    "hidden": lambda path: path.rename(path.with_name(f".{path.name}")),
}


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize(
    "file",
    [
        *("plan.json", "run.json", "faults.jsonl", "manifest.json", "reads/ends.parquet"),
        *(part("history", 0), part("reads", 0)),
    ],
)
def test_no_run_with_a_damaged_file_is_valid_or_has_lost_anything(
    file: str, harm: str, tmp_path: Path
) -> None:
    rundir = valid_run(tmp_path)
    assert verdict_of(rundir) == ("valid", 0)
    HARM[harm](rundir.path / file)
    if file == "manifest.json" and harm in ("cut", "grown"):  # by a line's end: the same JSON
        assert verdict_of(rundir) == ("valid", 0)
        return
    verdict, lost = verdict_of(rundir)
    assert verdict in ("unknown", "refused")
    assert lost == 0


@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_log_of_a_node_changes_no_verdict(harm: str, tmp_path: Path) -> None:
    rundir = valid_run(tmp_path)
    HARM[harm](rundir.node("b1") / "server.log")
    assert verdict_of(rundir) == ("valid", 0)


@pytest.mark.parametrize("name", [name for name in BY_MANIFEST if BY_MANIFEST[name][1] == "reads"])
def test_a_lossy_run_whose_reads_have_gaps_has_lost_nothing(name: str, tmp_path: Path) -> None:
    rundir = copy_of(LOSSY, tmp_path)
    assert verdict_of(rundir) == ("invalid", 2019)
    BY_MANIFEST[name][0](rundir)
    assert verdict_of(rundir) == ("unknown", 0)


def rewritten(rundir: RunDir, name: str, change: Callable[[dict[str, Any]], object]) -> RunDir:
    """The run with one of its documents edited, and a manifest that is true to that."""
    document = rundir.read_json(rundir.path / name)
    change(document)
    rundir.write_json(rundir.path / name, document)
    write_manifest(rundir, rundir.run_id)
    return rundir


@pytest.mark.parametrize(
    ("name", "change", "sentence"),
    [
        ("run.json", lambda run: run["load"].update(attempted=3), "but run.json counted 3"),
        ("run.json", lambda run: run["load"].update(attempted=9), "that run.json counted"),
        ("run.json", lambda run: run["load"].pop("attempted"), "how the load went"),
        ("run.json", lambda run: run["load"].update(starved=None), "how the load went"),
        ("run.json", lambda run: run.pop("load"), "how the load went"),
        ("plan.json", lambda plan: plan.update(faults=[]), "not of this plan: the faults kill"),
    ],
)
def test_documents_that_contradict_the_rest_are_no_evidence(
    name: str, change: Callable[[dict[str, Any]], object], sentence: str, tmp_path: Path
) -> None:
    """A manifest detects no forgery; what is left speaks against it."""
    document = judge_run(rewritten(valid_run(tmp_path), name, change))
    assert (document["verdict"], document["complete"]) == ("unknown", False)
    assert sentence in document["reason"]


def test_values_that_nobody_wrote_prove_nothing_where_the_counts_differ(tmp_path: Path) -> None:
    """Without the operations that run.json counted, all that is read is of nobody."""
    rundir = valid_run(tmp_path)
    path = rundir.history / "part-00000.parquet"
    table = pq.read_table(path)
    place, field = table.schema.get_field_index("process"), table.schema.field("process")
    nobody = pa.array([-1] * len(table), field.type)
    pq.write_table(table.set_column(place, field, nobody), path)
    document = judge_run(rewritten(rundir, "run.json", lambda run: None))
    assert document["verdict"] == "unknown"
    assert document["counts"]["unexpected"] == 8
    assert "holds the begin of 0 operations, but run.json counted 8" in document["reason"]


def test_a_fault_that_was_never_undone_is_a_gap_of_a_run_that_is_done(tmp_path: Path) -> None:
    rundir = valid_run(tmp_path)
    lines = rundir.faults.read_bytes().splitlines(keepends=True)
    rundir.faults.write_bytes(b"".join(lines[:4]))
    rewritten(rundir, "run.json", lambda run: None)
    assert judge_run(rundir)["reason"] == "faults.jsonl does not say when kill was undone"


@pytest.mark.parametrize(
    ("key", "value", "what"),
    [
        ("replicas", 0, "promises.replicas is 0"),
        ("partitions", -1, "promises.partitions is -1"),
        ("model", "logs", "promises.model: there is no model 'logs'; .* did you mean 'log'?"),
        ("model", "moon", "use the ackloss that wrote it, or a newer one"),
    ],
)
def test_promises_that_nothing_can_hold_are_refused(
    key: str, value: object, what: str, tmp_path: Path
) -> None:
    promises = Promises(replicas=3).document() | {key: value}
    rundir = rewritten(valid_run(tmp_path), "run.json", lambda run: run.update(promises=promises))
    with pytest.raises(HistoryError, match=what):
        judge_run(rundir)
