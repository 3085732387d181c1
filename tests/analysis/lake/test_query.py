"""SQL over a lake: both engines give the answers of the statistics, and bad input is one sentence
with its exit code."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ackloss
from ackloss.cli import main
from analysis.campaign import campaign_document, results_of
from analysis.lake.place import place_of
from analysis.lake.query import ENGINES, as_csv, query, rows, text
from analysis.lake.schema import CELLS, FAULTS, TABLES
from analysis.lake.stored import StoredLake, cells_of, open_lake
from analysis.statistics.samples import sample_of
from checkers.judging import spark
from harness.campaigns.journal import read_progress
from harness.errors import HistoryError, QueryError
from harness.history.run_folder import RunDir
from tests.fixtures import command_line
from tests.fixtures.campaign_folder import OFF, ON
from tests.fixtures.lakes import ROOT, add_run, campaign, files_of, lake_of
from tests.fixtures.result_documents import FAILED, lossy, run

PAGE = (ROOT / "docs" / "how-to" / "lake.md").read_text(encoding="utf-8")
QUESTIONS = re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL)
OURS = f"ackloss-{os.getpid()}-"
"""How the temporary folders begin that `ackloss clean` removes after a SIGKILL."""
ENGINES_HERE = [
    pytest.param(name, marks=[pytest.mark.spark] * (name == "spark")) for name in ENGINES
]
DOCUMENTS = {
    ON: [lossy(200), lossy(50), run(), run("unknown", doubts=("starved",)), FAILED],
    OFF: [run(), run("invalid", counter_examples=("unexpected",)), lossy(9, doubts=("starved",))],
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lakes")
    night = campaign(folder / "2026-01-03", DOCUMENTS)
    other = campaign(folder / "night 2 = [a]%", {OFF: [run()] * 2}, versions={"target": "3.9.2"})
    lake = folder / "lake [a]{b,c}*"
    lake_of(lake, night, other)
    return lake


@pytest.fixture
def lake(path: Path) -> StoredLake:
    return open_lake(place_of(path))


NAMES = (
    *("2026-01-03", "Prüfung 1", "夜間", "100%", "a%41b", "a=b", "it's a 'night'"),
    *('"quoted"', "[x]{y}*?", "a+b:c#d&e", "back\\slash", "\u0081", "ÃŒ"),
)


@pytest.fixture(scope="module")
def of_names(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of campaigns with such names, each of one run more than the one before."""
    folder = tmp_path_factory.mktemp("names")
    nights = [campaign(folder / name, {ON: [run()] * n}) for n, name in enumerate(NAMES, 1)]
    lake_of(folder / "lake", *nights)
    return folder / "lake"


@pytest.mark.parametrize("engine", ENGINES_HERE)
def test_a_campaign_has_the_name_of_its_folder_in_both_engines(of_names: Path, engine: str) -> None:
    lake = open_lake(place_of(of_names))
    sql = "SELECT campaign, count(*) AS n FROM runs GROUP BY campaign ORDER BY n"
    assert rows(query(lake, sql, engine=engine)) == [[name, n] for n, name in enumerate(NAMES, 1)]
    of_one = "SELECT count(*) AS n FROM runs WHERE campaign = 'Prüfung 1'"
    assert rows(query(lake, of_one, engine=engine)) == [[2]]


def asked(*words: object) -> Result:
    done = CliRunner().invoke(main, ["lake", *map(str, words)], prog_name="ackloss")
    assert "Traceback" not in done.output
    return done


@pytest.mark.parametrize("engine", ENGINES_HERE)
def test_the_questions_of_the_page_are_answered(lake: StoredLake, engine: str) -> None:
    by_cell, by_version, by_night, by_nemesis = (
        rows(query(lake, sql, engine=engine)) for sql in QUESTIONS
    )
    assert by_cell == [
        [OFF, 5, 4, 0, pytest.approx(0), pytest.approx(0)],
        [ON, 5, 3, 2, pytest.approx(0.25 / 3), pytest.approx(250 / 3000)],
    ]
    assert by_version == [
        ["3.9.2", "false", 0, 2],
        ["4.3.1", "false", 0, 2],
        ["4.3.1", "true", 2, 3],
    ]
    assert [[row[0], *row[2:]] for row in by_night] == [
        ["2026-01-03", OFF, 0, 2],
        ["night 2 = [a]%", OFF, 0, 2],
        ["2026-01-03", ON, 2, 3],
    ]
    assert by_nemesis == [["", 9, 9]]


def test_duckdb_answers_in_utc_on_any_machine(
    lake: StoredLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        sql = "SELECT cast(timestamptz '2026-01-03 01:00:00+00' AS date) AS day"
        assert rows(query(lake, sql, engine="duckdb")) == [["2026-01-03"]]
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize("engine", ENGINES_HERE)
def test_every_table_can_be_asked(lake: StoredLake, engine: str) -> None:
    counted = {
        name: rows(query(lake, f"SELECT count(*) AS n FROM {name}", engine=engine))
        for name in ("runs", "cells", "faults", "findings", "observations", "ops")
    }
    assert counted == {
        "runs": [[10]],
        "cells": [[10]],
        "faults": [[9]],
        **{name: [[0]] for name in ("findings", "observations", "ops")},
    }
    everything = query(lake, "SELECT * FROM runs", engine=engine)
    assert everything.column_names[:2] == ["campaign", "run_id"]


@pytest.mark.parametrize("engine", ENGINES_HERE)
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELEC 1", "yntax error at or near"),
        ("SELECT nothing FROM cells", "nothing"),
        ("SELECT * FROM place", "place"),
        ("SELECT cast(cell AS int) AS n FROM cells", "unclean="),
        ("SELECT cell, cell FROM cells", "several columns of the answer are named cell"),
        (" ", "the query is empty"),
    ],
)
def test_a_bad_query_is_one_sentence(
    lake: StoredLake, engine: str, sql: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(QueryError, match=re.escape(words)) as refused:
        query(lake, sql, engine=engine)
    assert "\n" not in str(refused.value)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("engine", ENGINES_HERE)
@pytest.mark.parametrize(
    ("sql", "answer"),
    [
        ("SELECT 1 AS a;", [[1]]),
        ("SELECT ';' AS a ; ; -- done", [[";"]]),
        ("WITH q AS (SELECT 1 AS a) SELECT * FROM q -- done", [[1]]),
        ("VALUES (1);", [[1]]),
        ("FROM cells SELECT count(*) AS n", [[10]]),
        ("(SELECT 1 AS a)", [[1]]),
    ],
)
def test_a_query_that_reads_is_run(
    lake: StoredLake, engine: str, sql: str, answer: list[list[object]]
) -> None:
    assert rows(query(lake, sql, engine=engine)) == answer


@pytest.mark.parametrize("engine", ENGINES_HERE)
def test_tables_and_columns_are_shown(lake: StoredLake, engine: str) -> None:
    shown = rows(query(lake, "SHOW TABLES;", engine=engine))
    assert {name for row in shown for name in row if name in TABLES} == set(TABLES)
    described = rows(query(lake, "DESCRIBE cells", engine=engine))
    assert [row[0] for row in described] == CELLS.schema.names


def test_duckdb_has_its_own_kinds_of_queries(lake: StoredLake) -> None:
    pivot = query(lake, "PIVOT cells ON class USING count(*) GROUP BY simulated;", engine="duckdb")
    assert {"loss", "none"} < set(pivot.column_names)
    assert len(query(lake, "SUMMARIZE cells", engine="duckdb")) == len(CELLS.schema.names)


ONLY_QUERIES = (
    "SQL: only one query that reads the tables is accepted; "
    "use one SELECT (also after WITH), VALUES, SHOW or DESCRIBE"
)
OTHER_STATEMENTS = {
    "both": (
        *("CREATE TABLE t AS SELECT 1 AS a", "DROP TABLE cells", "INSERT INTO cells VALUES (1)"),
        *(
            "UPDATE cells SET cell = 'a'",
            "DELETE FROM cells",
            "SET threads = 1",
            "EXPLAIN SELECT 1",
        ),
        *("WITH q AS (SELECT 1 AS a) INSERT INTO t SELECT * FROM q", "CALL pragma_version();"),
    ),
    "duckdb": (
        *("SELECT 1 AS a; SELECT 2 AS a", "SELECT 1 AS a; DROP TABLE cells", "PRAGMA version"),
        *("COPY (SELECT 1) TO 'written'", "COPY cells TO 'written'", "EXPORT DATABASE 'written'"),
        *("ATTACH 'written'", "INSTALL httpfs", "LOAD httpfs", "CHECKPOINT"),
        "CREATE TABLE t AS PIVOT cells ON class",
        "COPY (PIVOT cells ON class) TO 'written';",
    ),
    "spark": (
        *("INSERT OVERWRITE DIRECTORY 'written' USING csv SELECT 1", "CACHE TABLE cells"),
        *("FROM cells INSERT INTO t SELECT *", "FROM cells -- ;\n INSERT INTO t SELECT *"),
        *("EXECUTE IMMEDIATE 'CREATE TABLE t AS SELECT 1'", "BEGIN SELECT 1; END", "ADD JAR 'x'"),
    ),
}


@pytest.mark.parametrize("engine", ENGINES_HERE)
def test_other_statements_are_refused_in_one_sentence(lake: StoredLake, engine: str) -> None:
    for sql in OTHER_STATEMENTS["both"] + OTHER_STATEMENTS[engine]:
        with pytest.raises(QueryError) as refused:
            query(lake, sql, engine=engine)
        assert str(refused.value) == ONLY_QUERIES, sql


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("WITH q AS (COPY (SELECT 1) TO 'written') SELECT 1 AS a", ""),
        ("SELECT * FROM enable_logging(storage='file', storage_path='written')", "configuration"),
        ("SELECT * FROM read_csv('read.csv')", 'Cannot access file "read.csv"'),
        ("/* nothing */", "the query is empty"),
        (";", "the query is empty"),
    ],
)
def test_a_query_of_duckdb_reaches_no_files(
    path: Path, sql: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "read.csv").write_text("a\n1\n")
    monkeypatch.chdir(tmp_path)
    files = files_of(path)
    done = asked("query", sql, "--lake", path, "--engine", "duckdb")
    assert done.exit_code == 4
    (sentence,) = done.stderr.splitlines()
    assert words in sentence
    assert [each.name for each in tmp_path.iterdir()] == ["read.csv"]
    assert files_of(path) == files


def test_duckdb_spills_to_the_folder_for_temporary_files(lake: StoredLake) -> None:
    sql = "SELECT current_setting('temp_directory') AS folder"
    ((folder,),) = rows(query(lake, sql, engine="duckdb"))
    assert Path(folder).parent == Path(tempfile.gettempdir())
    assert Path(folder).name.startswith(OURS)
    assert not Path(folder).exists()  # any more


def test_the_warehouse_of_spark_is_a_folder_that_clean_knows() -> None:
    assert Path(urlsplit(spark._warehouse()).path).name.startswith(OURS)


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
    assert done.stdout == "6\n"
    assert not list(current.iterdir())
    assert not list(temporary.glob("ackloss-*"))


@pytest.mark.parametrize("engine", ENGINES_HERE)
def test_a_flipped_byte_is_found_by_its_checksum(path: Path, tmp_path: Path, engine: str) -> None:
    copy = tmp_path / "lake"
    subprocess.run(["cp", "-r", path, copy], check=True)
    (part,) = copy.glob("cells/campaign=2026-01-03/*.parquet")
    body = bytearray(part.read_bytes())
    body[60] ^= 0xFF
    part.write_bytes(body)
    with pytest.raises(HistoryError, match=r"part-00001.parquet: cannot be read: its Parquet is"):
        query(open_lake(place_of(copy)), "SELECT * FROM cells", engine=engine)


def test_the_command_prints_a_table_json_and_csv(path: Path) -> None:
    sql = "SELECT cell, sum(lost) AS lost, max(setting) AS setting FROM cells GROUP BY 1 ORDER BY 1"
    words = ("query", sql, "--lake", path, "--engine", "duckdb")
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


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("interval 2 months + interval 3 hours", "P2MT10800S"),
        ("'\\xAA\\x00a'::blob", "aa0061"),
        ("map{[1]: {'a': interval 1 day}}", {"[1]": {"a": "P1D"}}),
        ("18446744073709551616::hugeint", "18446744073709551616"),
        ("'=1+1'::enum('=1+1')", "=1+1"),
    ],
)
def test_the_command_prints_a_value_of_any_type(path: Path, sql: str, value: object) -> None:
    words = ("query", f"SELECT {sql} AS v", "--lake", path, "--engine", "duckdb")
    assert json.loads(asked(*words, "--json").stdout)["rows"] == [{"v": value}]
    shown = value if isinstance(value, str) else orjson.dumps(value).decode()
    assert asked(*words).stdout.split() == ["v", shown]
    lines = list(csv.reader(io.StringIO(asked(*words, "--csv").stdout)))
    assert lines == [["v"], [f"'{shown}" if shown.startswith("=") else shown]]


@pytest.mark.parametrize("engine", ENGINES_HERE)
def test_a_lake_without_a_later_column_is_read_and_extended(tmp_path: Path, engine: str) -> None:
    """As an earlier ackloss has written it: what it did not know is null."""
    made, path = campaign(tmp_path / "c", {ON: [run(), run()]}), tmp_path / "lake"
    lake_of(path, made)
    (part,) = path.glob("faults/*/*.parquet")
    pq.write_table(pq.ParquetFile(part).read().drop_columns(["leader_met"]), part)
    manifest = json.loads((path / "lake.json").read_bytes())
    manifest["campaigns"][0]["parts"]["faults"][0]["bytes"] = part.stat().st_size
    (path / "lake.json").write_text(json.dumps(manifest))
    sql = "SELECT leader_met, count(*) AS n FROM faults GROUP BY leader_met ORDER BY n"
    assert rows(query(open_lake(place_of(path)), sql, engine=engine)) == [[None, 2]]
    leaders = [{"fault": "cut", "leaders": ["b1"], "met": False}]
    add_run(made, ON, 2, {**run(), "leaders": leaders})
    grown = lake_of(path, made)
    assert rows(query(grown, sql, engine=engine)) == [[False, 1], [None, 2]]
    assert grown.read(FAULTS)["leader_met"].isna().sum() == 2


def test_simulated_results_say_so(tmp_path: Path) -> None:
    base = (ROOT / "plans/memory/log.toml").read_text(encoding="utf-8")
    runs = {"the plan as it is": [{**run(), "simulated": True}]}
    lake_of(tmp_path / "lake", campaign(tmp_path / "c", runs, axes="", base=base))
    words = ("query", "SELECT 1 AS one", "--lake", tmp_path / "lake", "--engine", "duckdb")
    done = asked(*words, "--csv")
    assert "Simulated: no real system was tested." in done.stderr
    assert done.stdout == '"one"\n1\n'
    assert json.loads(asked(*words, "--json").stdout)["simulated"] is True


def test_bad_places_are_one_sentence_with_exit_code_4(path: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "newer").mkdir()
    (tmp_path / "newer" / "lake.json").write_bytes(orjson.dumps({"schema": 2, "campaigns": []}))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "lake.json").write_text("{")
    escape = {"path": "cells/../../x.parquet", "rows": 1, "bytes": 1}
    entry = {"id": "c", "name": "c", "plan_hash": "", "simulated": False}
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "lake.json").write_bytes(
        orjson.dumps({"schema": 1, "campaigns": [{**entry, "parts": {"cells": [escape]}}]})
    )
    refused = {
        "empty": "this is not a lake: it has no lake.json",
        "newer": "has schema 2, this ackloss reads 1",
        "broken": "is not JSON",
        "outside": "is not a file of table cells",
        "missing": "this is not a lake",
        "ftp://user:secret@host/x": "a URL with credentials is refused",
        "gopher://host/x": "nothing here reads the scheme 'gopher'",
        "file://relative": "this URL cannot be used",
    }
    for name, words in refused.items():
        address = name if "://" in name else tmp_path / name
        done = asked("query", "SELECT 1", "--lake", address, "--engine", "duckdb")
        assert done.exit_code == 4, done.output
        (sentence,) = done.stderr.splitlines()
        assert words in sentence
        assert "secret" not in sentence
    by_url = asked("query", "SELECT 1 AS n", "--lake", path.as_uri(), "--engine", "duckdb")
    assert by_url.exit_code == 0


def test_a_bucket_that_cannot_be_reached_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    address = "s3://bucket/lake?scheme=http&endpoint_override=127.0.0.1:9"
    done = asked("query", "SELECT 1", "--lake", address, "--engine", "duckdb")
    assert done.exit_code == 5, done.output
    (sentence,) = done.stderr.splitlines()
    assert sentence.startswith("ackloss: s3://bucket/lake/lake.json?")
    assert "the storage does not answer as it should: " in sentence


def test_a_missing_or_shorter_file_is_one_sentence(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "lake"
    subprocess.run(["cp", "-r", path, copy], check=True)
    (part,) = copy.glob("cells/campaign=2026-01-03/*.parquet")
    part.write_bytes(part.read_bytes()[:-100])
    for words in ("bytes, not", "is missing"):
        done = asked("query", "SELECT * FROM cells", "--lake", copy, "--engine", "duckdb")
        assert done.exit_code == 4
        (sentence,) = done.stderr.splitlines()
        assert words in sentence
        assert str(part.relative_to(copy)) in sentence
        part.unlink(missing_ok=True)


@pytest.mark.parametrize("engine", ENGINES_HERE)
def test_a_lake_that_a_build_changed_since_it_was_opened_is_one_sentence(
    tmp_path: Path, engine: str
) -> None:
    """The build removes files with replaced rows; what it only adds to is read as it was."""
    made, path = campaign(tmp_path / "c", {ON: [run()]}), tmp_path / "lake"
    lake_of(path, made)
    opened = ackloss.lake(path)
    add_run(made, ON, 1, lossy())
    lake_of(path, made)
    assert len(opened.cells()) == 1
    (first, _) = sorted(made.runs.iterdir())
    (first / "result.json").write_bytes(orjson.dumps({**lossy(5), "run_id": first.name}))
    lake_of(path, made)
    sentence = f"{path}: a build has changed this lake since it was opened; open it again"
    for read in (opened.cells, lambda: opened.sql("SELECT cell FROM cells", engine=engine)):
        with pytest.raises(HistoryError) as refused:
            read()
        assert str(refused.value) == sentence
    assert sorted(ackloss.lake(path).cells()["lost"]) == [5, 100]


def test_damage_of_one_campaign_hides_no_other(path: Path, tmp_path: Path) -> None:
    """A report on some campaigns reads only their files; SQL is about complete tables."""
    copy = tmp_path / "lake"
    subprocess.run(["cp", "-r", path, copy], check=True)
    (part,) = copy.glob("cells/campaign=2026-01-03/*.parquet")
    part.unlink()
    words = ("report", "--lake", copy, "--json")
    good = asked(*words, "night 2 = [a]%")
    assert good.exit_code == 0, good.output
    for bad in (asked(*words), asked(*words, "2026-01-03")):
        assert bad.exit_code == 4
        assert f"{part}: is missing" in bad.stderr
    one = "SELECT cell FROM cells WHERE campaign = 'night 2 = [a]%'"
    assert asked("query", one, "--lake", copy, "--engine", "duckdb").exit_code == 4


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
    assert not (good.path / "lake.json").exists()
    assert not (good.path / ".lake.lock").exists()


def test_a_lake_of_a_newer_schema_is_one_sentence_and_stays_as_it_is(tmp_path: Path) -> None:
    """However many campaigns are to be added, and whoever opens it."""
    nights = [campaign(tmp_path / f"n{n}", {ON: [lossy()], OFF: [run()]}).path for n in (1, 2)]
    build = ("build", *nights, "--to", tmp_path / "lake")
    assert asked(*build).exit_code == 0
    manifest = tmp_path / "lake" / "lake.json"
    document = orjson.loads(manifest.read_bytes())
    manifest.write_bytes(orjson.dumps({**document, "schema": 2, "new": 1}))
    files = files_of(tmp_path / "lake")
    sentence = (
        f"{manifest}: schema: has schema 2, this ackloss reads 1; "
        "use the ackloss that wrote the lake, or a newer one"
    )
    compare = ("campaign", "compare", *nights, "--lake", tmp_path / "lake")
    for done in (asked(*build), command_line.ackloss(*compare)):
        assert done.exit_code == 4
        assert (done.stdout, done.stderr) == ("", f"ackloss: {sentence}\n")
    with pytest.raises(HistoryError) as refused:
        ackloss.lake(tmp_path / "lake")
    assert str(refused.value) == sentence
    assert files_of(tmp_path / "lake") == files


def test_python_has_the_tables_and_answers_queries(path: Path) -> None:
    lake = ackloss.lake(path)
    assert lake.campaigns == ["2026-01-03", "night 2 = [a]%"]
    assert not lake.simulated
    cells = lake.cells(["cell", "lost", "conclusive", "setting"])
    assert list(cells.columns) == ["cell", "lost", "conclusive", "setting"]
    assert cells[cells["conclusive"]].groupby("cell")["lost"].sum().to_dict() == {ON: 250, OFF: 0}
    assert len(lake.runs()) == 10
    assert lake.ops().empty
    (total,) = lake.sql("SELECT sum(lost) AS lost FROM cells", engine="duckdb")["lost"]
    assert total == 259
    with pytest.raises(QueryError):
        lake.sql("SELECT", engine="duckdb")


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (
            ["nope"],
            "the table cells has no column 'nope'; docs/how-to/lake.md#cells lists its columns",
        ),
        (
            ["cell", "los"],
            "the table cells has no column 'los'; "
            "did you mean 'lost'? docs/how-to/lake.md#cells lists its columns",
        ),
        ([None], "the table cells has no column None; docs/how-to/lake.md#cells lists its columns"),
        ("cell", '\'cell\' is not a list of columns; write a list, such as ["campaign", "run_id"]'),
        (5, '5 is not a list of columns; write a list, such as ["campaign", "run_id"]'),
    ],
)
def test_python_refuses_columns_that_a_table_lacks(path: Path, columns: Any, sentence: str) -> None:
    with pytest.raises(QueryError) as refused:
        ackloss.lake(path).cells(columns)
    assert str(refused.value) == f"columns: {sentence}"
    assert "\n### cells\n" in PAGE


@pytest.mark.parametrize("columns", [("lost", "cell"), pd.Index(["lost", "cell"])])
def test_python_reads_columns_in_their_order(path: Path, columns: Any) -> None:
    assert list(ackloss.lake(path).cells(columns).columns) == ["lost", "cell"]
    assert ackloss.lake(path).faults([]).shape == (9, 0)


@pytest.mark.parametrize("engine", ["polars", "DuckDB", "", None, ["spark"]])
def test_python_refuses_an_unknown_engine(path: Path, engine: Any) -> None:
    with pytest.raises(QueryError) as refused:
        ackloss.lake(path).sql("SELECT 1 AS a", engine=engine)
    sentence = f"engine: the engine {engine!r} is unknown; use spark or duckdb"
    assert str(refused.value) == sentence


def test_help_and_building_need_no_spark_and_no_duckdb(tmp_path: Path) -> None:
    code = "import sys, ackloss, analysis.lake.build, analysis.lake.query\n"
    code += "print(*{'pyspark', 'duckdb'} & set(sys.modules))"
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


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.fixed_dictionaries(
    {cell: st.lists(st.one_of(outcomes, st.just(FAILED)), max_size=5) for cell in (ON, OFF)}
))  # fmt: skip
def test_aggregates_are_those_of_the_campaign(
    data: dict[str, list[dict[str, object]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("random")
    made = campaign(folder / "c", data)
    lake = lake_of(folder / "lake", made)
    answered = {row[0]: row[1:] for row in rows(query(lake, SHARES, engine="duckdb"))}
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
