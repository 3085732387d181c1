"""What Spark reads as a lake's folder; what it does not read is one sentence, before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.lake.build import build
from analysis.lake.hadoop import hadoop_url
from analysis.lake.place import place_of
from harness.errors import HistoryError
from harness.storage import Folder
from tests.fixtures.campaign_folder import ON
from tests.fixtures.command_line import ackloss
from tests.fixtures.lakes import campaign
from tests.fixtures.result_documents import lossy


@pytest.mark.parametrize(
    ("url", "spark"),
    [
        ("s3://bucket/a%20lake", "s3a://bucket/a lake"),
        ("s3a://bucket/lake", "s3a://bucket/lake"),
        ("gs://bucket/lake", "gs://bucket/lake"),
        ("gcs://bucket/lake", "gs://bucket/lake"),
        ("hdfs://name:8020/lake", "hdfs://name:8020/lake"),
        ("abfss://container@account.dfs.core.windows.net/lake",) * 2,
        ("file:///nights/a%20lake", "file:///nights/a lake"),
    ],
)
def test_each_scheme_has_hadoops_name(url: str, spark: str) -> None:
    assert hadoop_url(Folder(url)) == spark


@pytest.mark.parametrize(
    ("url", "what"),
    [
        ("sftp://host/lake", "Spark does not read the scheme 'sftp'"),
        ("s3://bucket/lake?region=eu-west-1", "Spark does not read the options of a URL"),
    ],
)
def test_what_spark_does_not_read_is_refused(url: str, what: str) -> None:
    with pytest.raises(HistoryError, match=what) as refused:
        hadoop_url(Folder(url))
    assert refused.value.file == url
    assert "`--engine duckdb` reads this lake" in str(refused.value)


def test_the_command_refuses_it_in_one_sentence_and_duckdb_reads_it(tmp_path: Path) -> None:
    """`local://` is fsspec's scheme for the files of this machine."""
    lake = f"local://{tmp_path}/lake"
    build(place_of(lake), campaign(tmp_path / "c", {ON: [lossy(3)]}))
    words = ("lake", "query", "SELECT sum(lost) AS lost FROM cells", "--lake", lake, "--engine")
    refused = ackloss(*words, "spark")
    assert refused.exit_code == 4
    assert refused.stderr.splitlines() == [
        f"ackloss: {lake}: Spark does not read the scheme 'local'; "
        "`--engine duckdb` reads this lake"
    ]
    answered = ackloss(*words, "duckdb", "--csv")
    assert answered.exit_code == 0, answered.stderr
    assert answered.stdout.split() == ['"lost"', "3"]
