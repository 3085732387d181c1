"""SQL over a lake: Spark gives the answers of the statistics, DuckDB the same from the files that
Delta names, and bad input is one sentence with its exit code."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pandas as pd
import pyarrow as pa
import pytest
from click.testing import Result
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import ackloss
from analysis.campaign import campaign_document, results_of
from analysis.lake.delta import CELLS, FAULTS, TABLES, StoredLake, open_lake
from analysis.lake.query import as_csv, query, rows, text
from analysis.lake.stored import cells_of
from analysis.statistics.cells import sample_of
from harness.campaigns.journal import read_progress
from harness.errors import HistoryError, QueryError
from harness.history.run_folder import RunDir
from tests.fixtures import command_line
from tests.fixtures.campaign_folder import OFF, ON
from tests.fixtures.lakes import (
    ROOT,
    add_run,
    by_duckdb,
    campaign,
    lake_of,
    without_columns,
)
from tests.fixtures.result_documents import FAILED, lossy, run

pytestmark = pytest.mark.slow

PAGE = (ROOT / "docs" / "how-to" / "lake.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
DOCUMENTS = {
    ON: [lossy(200), lossy(50), run(), run("unknown", doubts=("starved",)), FAILED],
    OFF: [run(), run("invalid", counter_examples=("unexpected",)), lossy(9, doubts=("starved",))],
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lakes")
    night = campaign(folder / "2026-01-03", DOCUMENTS)
    other = campaign(folder / "night 2 = [a]%", {OFF: [run()] * 2}, versions={"target": "3.9.2"})
    lake = folder / "a lake = 100%"
    lake_of(lake, night, other)
    return lake


@pytest.fixture
def lake(path: Path) -> StoredLake:
    return open_lake(path)


NAMES = (
    *("2026-01-03", "Prüfung 1", "夜間 100%41b", "it's a='night'", '"quoted" back\\slash'),
    *("[x]{y}*?", "a+b:c#d&e", "\u0081ÃŒ"),
)


@pytest.mark.full
@pytest.mark.spark
def test_a_campaign_has_the_name_of_its_folder(tmp_path: Path) -> None:
    lake = lake_of(tmp_path / "lake", *(campaign(tmp_path / name, {ON: [run()]}) for name in NAMES))
    answer = query(lake, "SELECT campaign, count(*) AS n FROM runs GROUP BY campaign")
    assert sorted(rows(answer)) == [[name, 1] for name in sorted(NAMES)]
    of_one = "SELECT count(*) AS n FROM runs WHERE campaign = 'Prüfung 1'"
    assert rows(query(lake, of_one)) == [[1]]


def asked(*words: object) -> Result:
    return command_line.ackloss("lake", *words)


@pytest.mark.spark
def test_the_questions_of_the_page_are_answered(lake: StoredLake) -> None:
    by_cell, by_night = (rows(query(lake, QUESTIONS[n])) for n in (0, 2))
    assert by_cell == [
        [OFF, 5, 4, 0, pytest.approx(0), pytest.approx(0)],
        [ON, 5, 3, 2, pytest.approx(0.25 / 3), pytest.approx(250 / 3000)],
    ]
    assert [[row[0], *row[2:]] for row in by_night] == [
        ["2026-01-03", OFF, 0, 2],
        ["night 2 = [a]%", OFF, 0, 2],
        ["2026-01-03", ON, 2, 3],
    ]


@pytest.mark.full  # DuckDB answers them too
@pytest.mark.spark
def test_further_questions_of_the_page_are_answered(lake: StoredLake) -> None:
    by_version, by_nemesis = (rows(query(lake, QUESTIONS[n])) for n in (1, 3))
    assert by_version == [
        ["3.9.2", "false", 0, 2],
        ["4.3.1", "false", 0, 2],
        ["4.3.1", "true", 2, 3],
    ]
    assert by_nemesis == [["", 9, 9]]


@pytest.mark.spark
def test_every_table_can_be_asked(lake: StoredLake) -> None:
    names = ("runs", "cells", "faults", "findings", "observations", "ops")
    counts = ", ".join(f"(SELECT count(*) FROM {name}) AS {name}" for name in names)
    assert rows(query(lake, f"SELECT {counts}")) == [[10, 10, 9, 0, 0, 0]]
    shown = rows(query(lake, "SHOW TABLES;"))
    assert {name for row in shown for name in row if name} >= {"campaigns", *TABLES}
    described = rows(query(lake, "DESCRIBE cells"))
    assert [(row[0], row[2]) for row in described] == [(c.name, c.about) for c in CELLS.columns]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELEC 1", "yntax error at or near"),
        ("SELECT nothing FROM cells", "nothing"),
        ("SELECT cast(cell AS int) AS n FROM cells", "unclean="),
        ("SELECT cell, cell FROM cells", "several columns of the answer are named cell"),
    ],
)
def test_a_bad_query_is_one_sentence(
    lake: StoredLake, sql: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(QueryError, match=re.escape(words)) as refused:
        query(lake, sql)
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""


def test_duckdb_reads_the_files_that_delta_names(lake: StoredLake) -> None:
    """Without any code of ours, as Polars, Trino or another Spark do."""
    by_cell, by_version, _, by_nemesis = (by_duckdb(lake, sql) for sql in QUESTIONS)
    assert [row[:4] for row in by_cell] == [[OFF, 5, 4, 0], [ON, 5, 3, 2]]
    assert [row[2:] for row in by_version] == [[0, 2], [0, 2], [2, 3]]
    assert by_nemesis == [["", 9, 9]]


@pytest.mark.full
@pytest.mark.spark
def test_spark_makes_no_warehouse_in_the_current_folder(path: Path, tmp_path: Path) -> None:
    current, temporary = tmp_path / "current", tmp_path / "temporary"
    current.mkdir()
    temporary.mkdir()
    code = "import sys, ackloss; print(len(ackloss.lake(sys.argv[1]).sql('SHOW TABLES')))"
    done = subprocess.run(
        [sys.executable, "-c", code, path],
        cwd=current,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout == "7\n"
    assert not list(current.iterdir())
    assert not list(temporary.glob("ackloss-*"))


@pytest.mark.spark
def test_a_damaged_or_missing_file_is_one_sentence(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "lake"
    subprocess.run(["cp", "-r", path, copy], check=True)
    part = Path(open_lake(copy).files(CELLS)[0])
    part.write_bytes(part.read_bytes()[:-100])
    for _ in ("shorter", "missing"):
        for read in (
            lambda: query(open_lake(copy), "SELECT * FROM cells"),
            ackloss.lake(copy).cells,
        ):
            with pytest.raises(HistoryError) as refused:
                read()
            assert "\n" not in str(refused.value)
            assert part.name in str(refused.value)
        part.unlink(missing_ok=True)


@pytest.mark.spark
def test_the_command_prints_a_table_json_and_csv(path: Path) -> None:
    columns = "cell, sum(lost) AS lost, any_value(setting) AS setting"
    sql = f"SELECT {columns} FROM cells GROUP BY 1 ORDER BY 1"
    words = ("query", sql, "--lake", path)
    table = asked(*words)
    assert table.exit_code == 0
    assert [line.split() for line in table.stdout.splitlines()] == [
        ["cell", "lost", "setting"],
        [OFF, "9", '{"unclean":"false"}'],
        [ON, "250", '{"unclean":"true"}'],
    ]
    document = json.loads(asked(*words, "--json").stdout)
    assert document["columns"] == ["cell", "lost", "setting"]
    assert document["rows"][1] == {"cell": ON, "lost": 250, "setting": {"unclean": "true"}}
    assert document["simulated"] is False
    lines = list(csv.reader(io.StringIO(asked(*words, "--csv").stdout)))
    assert lines[1] == [OFF, "9", '{"unclean":"false"}']
    assert asked(*words, "--csv", "--json").exit_code == 2


DAY = dt.timedelta(days=1)


@pytest.mark.parametrize(
    ("value", "kind", "plain"),
    [
        ((2, 0, 3 * 3_600 * 10**9), pa.month_day_nano_interval(), "P2MT10800S"),
        ((0, -1, -1_500_000_000), pa.month_day_nano_interval(), "P-1DT-1.5S"),
        ((0, 0, 0), pa.month_day_nano_interval(), "PT0S"),
        (DAY + dt.timedelta(hours=1), pa.duration("us"), "P1DT3600S"),
        (dt.timedelta(microseconds=-1), pa.duration("us"), "PT-0.000001S"),
        (-DAY, pa.duration("us"), "P-1D"),
        (b"\xaa\x00a", pa.binary(), "aa0061"),
        ([[1, 2], [3], []], pa.list_(pa.list_(pa.int64())), [[1, 2], [3], []]),
        ([("a", [DAY])], pa.map_(pa.string(), pa.list_(pa.duration("us"))), {"a": ["P1D"]}),
        ([([1], 2)], pa.map_(pa.list_(pa.int64()), pa.int64()), {"[1]": 2}),
        ([(1, True)], pa.map_(pa.int64(), pa.bool_()), {"1": True}),
        ([], pa.map_(pa.string(), pa.string()), {}),
        ({"a": [(b"k", 1)]}, pa.struct({"a": pa.map_(pa.binary(), pa.int64())}), {"a": {"6b": 1}}),
        ([Decimal(2**64)], pa.list_(pa.decimal128(38)), ["18446744073709551616"]),
        ([Decimal("1.5"), 2], pa.list_(pa.decimal128(38, 1)), [1.5, 2]),
    ],
)
def test_a_value_of_any_type_has_one_rendering(
    value: object, kind: pa.DataType, plain: object
) -> None:
    answer = pa.table({"v": pa.array([value, None], kind)})
    assert rows(answer) == [[plain], [None]]
    shown = plain if isinstance(plain, str) else orjson.dumps(plain).decode()
    assert text(plain) == shown
    lines = list(csv.reader(io.StringIO(as_csv(answer).decode())))
    assert [line or [""] for line in lines] == [["v"], [shown], [""]]


@pytest.mark.spark
def test_a_lake_without_a_later_column_is_read_and_extended(tmp_path: Path) -> None:
    """As an earlier ackloss has written it: what it did not know is null."""
    made, path = campaign(tmp_path / "c", {ON: [run(), run()]}), tmp_path / "lake"
    lake_of(path, made)
    without_columns(path, FAULTS, ["leader_met"])
    sql = "SELECT leader_met, count(*) AS n FROM faults GROUP BY leader_met ORDER BY n"
    assert rows(query(open_lake(path), sql)) == [[None, 2]]
    leaders = [{"fault": "cut", "leaders": ["b1"], "met": False}]
    add_run(made, ON, 2, {**run(), "leaders": leaders})
    grown = lake_of(path, made)
    assert rows(query(grown, sql)) == [[False, 1], [None, 2]]
    assert grown.read(FAULTS)["leader_met"].isna().sum() == 2


@pytest.mark.spark
def test_simulated_results_say_so(tmp_path: Path) -> None:
    base = (ROOT / "plans/memory/log.toml").read_text(encoding="utf-8")
    runs = {"the plan as it is": [{**run(), "simulated": True}]}
    lake_of(tmp_path / "lake", campaign(tmp_path / "c", runs, axes="", base=base))
    words = ("query", "SELECT 1 AS one", "--lake", tmp_path / "lake")
    done = asked(*words, "--csv")
    assert "Simulated: no real system was tested." in done.stderr
    assert done.stdout == '"one"\n1\n'


def test_bad_places_are_one_sentence_with_exit_code_4(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "earlier").mkdir()
    (tmp_path / "earlier" / "lake.json").write_text("{}")
    refused = {
        "empty": "this is not a lake: it has no table campaigns",
        "earlier": "this lake is of an earlier version; build it again from its campaigns",
        "missing": "this is not a lake",
        "a {b}": "a lake cannot be in a folder with { in its path",
        "ftp://user:secret@host/x": "a URL with credentials is refused",
        "gopher://host/x": "nothing here reads the scheme 'gopher'",
        "file://relative": "this URL cannot be used",
        "s3://bucket/lake?region=eu-west-1": "a lake's URL has no options",
    }
    for name, words in refused.items():
        address = name if "://" in name else tmp_path / name
        done = asked("query", "SELECT 1", "--lake", address)
        assert done.exit_code == 4, done.output
        (sentence,) = done.stderr.splitlines()
        assert words in sentence
        assert "secret" not in sentence


def test_a_bucket_that_cannot_be_reached_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "AWS_MAX_ATTEMPTS": "1",
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ACCESS_KEY_ID": "k",
        "AWS_SECRET_ACCESS_KEY": "s",
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    done = asked("query", "SELECT 1", "--lake", "s3://bucket/lake")
    assert done.exit_code == 5, done.output
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith(
        "ackloss: s3://bucket/lake: the storage does not answer as it should"
    )


def test_the_command_builds_what_it_can(tmp_path: Path) -> None:
    good = campaign(tmp_path / "good", {ON: [lossy()]})
    (tmp_path / "other").mkdir()
    done = asked("build", tmp_path / "other", good.path, "--to", tmp_path / "lake")
    assert done.exit_code == 4
    assert "it has no campaign.toml" in done.stderr
    assert "good: 1 added of 1 runs" in done.stdout
    again = asked("build", good.path, "--to", tmp_path / "lake", "--json")
    assert again.exit_code == 0
    assert json.loads(again.stdout)["campaigns"][0]["added"] == 0
    into_a_campaign = asked("build", good.path, "--to", good.path)
    assert into_a_campaign.exit_code == 4
    assert "this is not a lake" in into_a_campaign.stderr
    assert not (good.path / "campaigns").exists()


@pytest.mark.spark
def test_python_has_the_tables_and_answers_queries(path: Path) -> None:
    lake = ackloss.lake(path)
    assert lake.campaigns == ["2026-01-03", "night 2 = [a]%"]
    assert not lake.simulated
    cells = lake.cells(["cell", "lost", "conclusive", "setting"])
    assert list(cells.columns) == ["cell", "lost", "conclusive", "setting"]
    assert cells[cells["conclusive"]].groupby("cell")["lost"].sum().to_dict() == {ON: 250, OFF: 0}
    assert len(lake.runs()) == 10
    assert lake.ops().empty
    (total,) = lake.sql("SELECT sum(lost) AS lost FROM cells")["lost"]
    assert total == 259
    with pytest.raises(QueryError):
        lake.sql("SELECT")


def test_python_reads_the_columns_that_are_named(path: Path) -> None:
    lake, listed = ackloss.lake(path), 'lake.sql("DESCRIBE cells") lists its columns'
    refused: Mapping[str, Any] = {
        f"the table cells has no column 'nope'; {listed}": ["nope"],
        f"the table cells has no column 'los'; did you mean 'lost'? {listed}": ["cell", "los"],
        f"the table cells has no column None; {listed}": [None],
        '\'cell\' is not a list of columns; write a list, such as ["campaign", "run_id"]': "cell",
    }
    for sentence, columns in refused.items():
        with pytest.raises(QueryError) as error:
            lake.cells(columns)
        assert str(error.value) == f"columns: {sentence}"
    for named in (("lost", "cell"), pd.Index(["lost", "cell"])):
        assert list(lake.cells(named).columns) == ["lost", "cell"]


def test_help_and_building_need_no_spark(tmp_path: Path) -> None:
    code = "import sys, ackloss, analysis.lake.build, analysis.lake.query\n"
    code += "print(*{'pyspark'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == ""


outcomes = st.builds(
    lambda verdict, lost, acknowledged, doubts, deleted: run(
        "invalid" if lost and verdict == "valid" else verdict,
        lost=min(lost, acknowledged),
        acknowledged=acknowledged,
        doubts=doubts,
        deleted=min(deleted, lost, acknowledged),
    ),
    st.sampled_from(("valid", "invalid", "unknown")),
    st.integers(0, 50),
    st.integers(0, 1000),
    st.sampled_from(((), (), ("starved",), ("vacuous",), ("failed",))),
    st.integers(0, 5),
)
SHARES = """
    SELECT cell, count(*) AS runs, count_if(conclusive) AS conclusive,
           count_if(conclusive AND class = 'loss') AS lossy,
           avg(CASE WHEN conclusive THEN loss_rate END) AS rate,
           sum(CASE WHEN conclusive THEN lost END) AS lost
    FROM cells GROUP BY cell
"""


@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.fixed_dictionaries(
    {cell: st.lists(st.one_of(outcomes, st.just(FAILED)), max_size=5) for cell in (ON, OFF)}
))  # fmt: skip
def test_aggregates_are_those_of_the_campaign(
    data: dict[str, list[dict[str, object]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("random")
    made = campaign(folder / "c", data)
    assume(any(data.values()))
    lake = lake_of(folder / "lake", made)
    answered = {row[0]: row[1:] for row in by_duckdb(lake, SHARES)}
    stored = {cell.name: cell for cell in cells_of(lake, "c").values()}
    results = list(results_of(made, read_progress(made.journal)))
    for cell in campaign_document(made).cells:
        mine = sample_of(outcome for each, outcome in results if each.cell == cell.name)
        if not mine.runs:
            assert cell.name not in answered
            continue
        rate = mine.loss_rate.mean() if mine.loss_rate.size else None
        lost = mine.lost.sum() if mine.lost.size else None
        expected = [cell.runs, cell.conclusive, cell.conclusive_lossy, rate, lost]
        assert answered[cell.name] == pytest.approx(expected)
        again = sample_of(stored[cell.name].outcomes)
        assert (again.verdicts, again.lossy, again.others) == (
            mine.verdicts,
            mine.lossy,
            mine.others,
        )
        assert sorted(again.loss_rate) == sorted(mine.loss_rate)


def test_a_plain_run_folder_is_not_a_campaign(tmp_path: Path) -> None:
    RunDir.create(tmp_path, "r")
    done = asked("build", tmp_path / "r", "--to", tmp_path / "lake")
    assert done.exit_code == 4
    assert "this is not a campaign folder" in done.stderr
    assert not (tmp_path / "lake").exists()
