"""A run that is judged in shards and groups says exactly what it says in one piece."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from checkers import loss
from checkers.judging import availability
from checkers.judging.one_run import judge_run
from checkers.loss import Loss, findings, numbering
from checkers.loss.numbering import Slice
from harness.history import parquet_reader, rows
from harness.history.rows import Rows, facts_of
from harness.history.run_folder import RunDir
from harness.protocols import Run
from tests.fixtures.budget import budget
from tests.fixtures.large_runs import Shape

pytestmark = pytest.mark.slow

SHARES = st.sampled_from([0.0, 0.0, 0.02, 0.3])
SHAPES = st.builds(
    Shape,
    seed=st.integers(0, 2**20),
    writes=st.sampled_from([0, 1, 20, 90, 90]),
    partitions=st.sampled_from([1, 3]),
    apart=st.sampled_from([1, 1, 3, 40, 10**9]),
    keys=st.sampled_from([0, 0, 0, 3]),
    lost=SHARES,
    lost_ranges=st.integers(0, 2),
    copies=SHARES,
    astray=st.sampled_from([0.0, 0.0, 0.1]),
    refused=SHARES,
    unknown=SHARES,
    unexpected=st.integers(0, 2),
    acks=st.sampled_from(["all", "all", 1, 0]),
    second=st.sampled_from(["all", "all", "less", "none", "incomplete"]),
    unknown_offsets=st.booleans(),
    parts=st.integers(1, 5),
    rows=st.sampled_from([3, 1000]),
)

LOSING = Shape(seed=3, writes=200, partitions=3, apart=3, lost=0.2, lost_ranges=2, parts=4)


def answer(run: RunDir) -> tuple[dict[str, Any], pa.Table | None]:
    """The document, without its times, and the findings."""
    document = judge_run(run)
    del document["timings"]
    return document, pq.read_table(run.loss) if run.loss.exists() else None


def known_swapped(document: dict[str, Any]) -> set[int | None]:
    """Takes the numbers of swapped records out of a document: no shard of several has all records
    of a producer, so how many are swapped is not known then."""
    every = [document["counts"], *(check["counts"] for check in document["checks"])]
    return {counts.pop("swapped") for counts in every}


def tiny(patch: pytest.MonkeyPatch, *, shard_bytes: int = 100) -> None:
    """As if a few rows were too many for anything."""
    patch.setattr(loss, "_SMALL_BYTES", -1)
    patch.setattr(loss, "SHARD_BYTES", shard_bytes)
    patch.setattr(numbering, "BLOCK_BITS", 2)
    patch.setattr(loss, "AT_ONCE", 3)
    patch.setattr(findings, "_PIECE", 8)
    patch.setattr(numbering, "_MANY", 0)
    patch.setattr(numbering, "_FLAGS", 0)
    patch.setattr(rows, "_KEPT_BYTES", -1)
    patch.setattr(parquet_reader, "BATCH_ROWS", 5)
    patch.setattr(availability, "KEPT", 8)
    patch.setattr(availability, "FOLDED", 8)


@settings(max_examples=budget(4, 100), deadline=None)
@given(SHAPES, st.sampled_from([2**31, 2_000, 300]))
def test_the_answer_is_the_same_however_the_run_is_divided(shape: Shape, shard_bytes: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        run = shape.build(Path(folder), "a")
        document, findings = answer(run)
        tiny(patch, shard_bytes=shard_bytes)
        again, same = answer(run)
        swapped, of_all = (known_swapped(each) for each in (again, document))
        assert again == document
        assert swapped in ({None}, of_all)
        assert (same is None) == (findings is None)
        assert same is None or same.equals(findings)


def test_many_shards_and_groups_are_what_was_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = LOSING.build(tmp_path, "a")
    document, findings = answer(run)
    assert document["counts"]["lost"] > 30
    tiny(monkeypatch)
    of_run = Rows(facts_of(run))
    shards = Loss().shards(of_run)
    assert len(shards) > 5
    parts = [Loss().check(of_run, shard) for shard in shards]
    assert sum(part.counts["attempted"] > 0 for part in parts) == len(shards)
    merged = Loss().merge(of_run, parts)
    assert merged.findings is not None
    assert merged.findings.equals(findings)
    assert merged.counts["swapped"] is None, "no shard has all records of a producer"
    assert document["counts"]["swapped"] == 0


def test_of_each_kind_the_first_findings_are_listed_and_all_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = replace(LOSING, writes=70, copies=0.3).build(tmp_path, "a")
    document, every = answer(run)
    assert every is not None
    tiny(monkeypatch)
    monkeypatch.setattr(findings, "MOST", 7)
    again, listed = answer(run)
    assert listed is not None
    stated = [each["kind"] for each in document.pop("not_lost")]
    assert (stated, again.pop("not_lost")) == (["duplicate"], []), "not every copy is listed"
    assert (known_swapped(document), known_swapped(again)) == ({0}, {None})
    assert again == document
    for kind in ("lost", "duplicate"):
        of_kind = every.filter(pc.equal(every["kind"], kind))
        assert len(of_kind) > 7
        assert listed.filter(pc.equal(listed["kind"], kind)).equals(of_kind.slice(0, 7))


def test_a_shard_that_breaks_makes_its_run_unknown_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = replace(LOSING, writes=90)
    runs = [small.build(tmp_path, name) for name in ("broken", "next")]
    tiny(monkeypatch)
    check = Loss.check

    def breaking(self: Loss, run: Run, shard: Slice) -> Any:
        if run.facts.run_id == "broken" and shard.number == 2:
            raise MemoryError("no room for shard 2")
        return check(self, run, shard)

    monkeypatch.setattr(Loss, "check", breaking)
    answers = [judge_run(run) for run in runs]
    assert [answer["verdict"] for answer in answers] == ["unknown", "invalid"]
    assert "no room for shard 2" in answers[0]["reason"]
    assert not list(runs[0].findings.glob("*.parquet"))
