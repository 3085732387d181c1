"""A lake in S3 (a server on loopback) has what the lake in a folder has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.lake.build import build
from analysis.lake.delta import CELLS, TABLES, folder_of, open_lake
from analysis.lake.query import query
from harness.errors import EnvironmentFailure
from tests.fixtures.campaign_folder import OFF, ON
from tests.fixtures.lakes import add_run, campaign, lake_of
from tests.fixtures.result_documents import lossy, run
from tests.fixtures.s3 import s3_bucket

pytestmark = pytest.mark.slow

LOST = "SELECT cell, sum(lost) AS lost FROM cells GROUP BY cell ORDER BY cell"


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with s3_bucket(tmp_path_factory.mktemp("s3"), "lakes"):
        yield "s3://lakes"


def test_it_is_built_grows_and_is_asked_as_in_a_folder(bucket: str, tmp_path: Path) -> None:
    folder = campaign(tmp_path / "c", {ON: [lossy(3)], OFF: [run()]})
    there = folder_of(f"{bucket}/a lake")
    assert build(there, folder).added == 2
    assert build(there, folder).added == 0
    add_run(folder, OFF, 1, lossy(7))
    assert build(there, folder).added == 1
    here, lake = lake_of(tmp_path / "lake", folder), open_lake(there)
    for table in TABLES.values():
        by = [name for name in ("run_id", "fault") if name in table.schema.names]
        ours, theirs = (each.read(table).sort_values(by) for each in (lake, here))
        assert ours.reset_index(drop=True).equals(theirs.reset_index(drop=True)), table.name
    assert len(lake.read(CELLS)) == 3
    cells, other = lake.rows(CELLS), open_lake(there)
    run_ids = cells["run_id"].to_pylist()
    lake.replace(CELLS, "c", run_ids, iter([cells]))
    with pytest.raises(EnvironmentFailure, match="another process is writing"):
        other.replace(CELLS, "c", run_ids, iter([cells]))


@pytest.mark.full
@pytest.mark.spark
def test_spark_without_the_connector_of_s3_is_one_sentence(bucket: str, tmp_path: Path) -> None:
    there = folder_of(f"{bucket}/spark")
    build(there, campaign(tmp_path / "c", {ON: [lossy(3)]}))
    with pytest.raises(EnvironmentFailure) as refused:
        query(open_lake(there), LOST)
    assert str(refused.value) == (
        f"{bucket}/spark: Spark here has no connector for the storage of this lake; name it with "
        "--conf spark.jars.packages=... (docs/how-to/lake.md)"
    )
