"""The tables of a lake: every column with its type and meaning, which `tables.toml` spells and
nothing else; one Delta table each, below a folder here or at a URL.

Delta knows which files of a table count, and replaces rows by one commit; a second process that
replaces the same rows meanwhile is refused. So any engine that reads Delta reads a lake. Commits
are of one table each: `build` commits `runs` last.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
from deltalake import CommitProperties, DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError

from harness import __version__
from harness.errors import EnvironmentFailure, HistoryError
from harness.history.documents import Availability, Counts, Rates
from harness.storage import Folder, trouble_at
from harness.urls import is_url

CAMPAIGN: Final = "campaign"

TEXT, NUMBER = pa.string(), pa.int64()
_TYPES: Final = {
    "text": TEXT,
    "number": NUMBER,
    "real": pa.float64(),
    "flag": pa.bool_(),
    "instant": pa.timestamp("us", tz="UTC"),
    "texts": pa.list_(TEXT),
    "numbers": pa.list_(NUMBER),
    "text by text": pa.map_(TEXT, TEXT),
    "number by text": pa.map_(TEXT, NUMBER),
}


@dataclass(frozen=True)
class Column:
    """A column: its name, its type in Arrow, and what it means."""

    name: str
    type: pa.DataType
    about: str


@dataclass(frozen=True)
class Table:
    """A table: its name, what one row is, and its columns."""

    name: str
    about: str
    columns: tuple[Column, ...]

    @property
    def schema(self) -> pa.Schema:
        """Its columns as Arrow has them."""
        return pa.schema([(column.name, column.type) for column in self.columns])


def rate(name: str) -> str:
    """The column of a rate."""
    return f"{name}_rate"


def seen(name: str) -> str:
    """The column of what clients saw. How many writes ended unknown is a count already."""
    return f"clients_{name}" if name in {field.name for field in fields(Counts)} else name


_DATA: Final[dict[str, Any]] = tomllib.loads(
    (files("analysis.lake") / "tables.toml").read_text(encoding="utf-8")
)


def _columns(given: Iterable[list[str] | str]) -> Iterator[Column]:
    """Columns, and groups of them by their names."""
    for each in given:
        if each == "*measured":
            yield from _columns(_measured())
        elif isinstance(each, str):
            yield from _columns(_DATA["groups"][each.removeprefix("*")])
        else:
            name, kind, about = each
            yield Column(name, _TYPES[kind], about)


def _measured() -> Iterator[list[str]]:
    """Counts, rates, why writes were lost, and availability, by the fields of the documents that
    hold them."""
    for field in fields(Counts):
        yield [field.name, "number", "counts of writes, as in its result"]
    for field in fields(Rates):
        yield [rate(field.name), "real", _DATA["rates"][field.name]]
    yield from _DATA["groups"]["why"]
    for field in fields(Availability):
        yield [seen(field.name), *_DATA["seen"][field.name]]


def _table(name: str) -> Table:
    given = _DATA["tables"][name]
    return Table(name, given["about"], tuple(_columns(given["columns"])))


RUNS, CELLS, FAULTS = _table("runs"), _table("cells"), _table("faults")
FINDINGS, OBSERVATIONS, OPS = _table("findings"), _table("observations"), _table("ops")
TABLES: Final = {table.name: table for table in (RUNS, CELLS, FAULTS, FINDINGS, OBSERVATIONS, OPS)}
"""What runs have, by name."""
CAMPAIGNS: Final = _table("campaigns")


AGAIN: Final = "build the lake again in another folder, or copy it again"
_MISSING: Final = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
"""Types of pandas that have a value which is missing."""
_UNUSABLE: Final = frozenset("[]{}*?^|\\")
"""Characters that Delta's library or Spark does not take in the path of a table: of some, Spark
would read a file twice."""
_EARLIER: Final = "lake.json"


@dataclass(frozen=True, kw_only=True)
class LakeCampaign:
    """A campaign of the lake. `id` is the name of its folder."""

    id: str
    name: str
    plan_hash: str
    simulated: bool
    started: str | None = None
    ended: str | None = None
    workers: int | None = None

    @property
    def identity(self) -> tuple[str, str]:
        """Equal for two states of one campaign, whatever its folder is called; of one whose start
        is not known, only under one name."""
        return self.plan_hash, self.started or self.id

    def row(self) -> pa.Table:
        """Its row of `campaigns`."""
        return pa.Table.from_pylist([{CAMPAIGN: self.id, **vars(self)}], schema=CAMPAIGNS.schema)


@dataclass(frozen=True)
class StoredLake:
    """A lake as it was when it was opened; a table without rows need not be there."""

    folder: Folder
    tables: Mapping[str, DeltaTable]

    @property
    def shown(self) -> str:
        """Its name for the user."""
        return self.folder.place()

    @cached_property
    def campaigns(self) -> tuple[LakeCampaign, ...]:
        """Its campaigns, by their names."""
        rows = self.rows(CAMPAIGNS).to_pylist()
        found = (LakeCampaign(id=row.pop(CAMPAIGN), **row) for row in rows)
        return tuple(sorted(found, key=lambda each: each.id))

    @property
    def simulated(self) -> bool:
        """Whether nothing real was tested: in all campaigns, or in none."""
        return any(campaign.simulated for campaign in self.campaigns)

    def campaign(self, name: str) -> LakeCampaign | None:
        """The campaign with this id."""
        return next((each for each in self.campaigns if each.id == name), None)

    def rows(
        self, table: Table, columns: Sequence[str] | None = None, *, campaign: str | None = None
    ) -> pa.Table:
        """The rows of a table, or of a campaign in it, with all columns or some; a column that it
        lacks is null. Raises HistoryError."""
        names = table.schema.names if columns is None else list(columns)
        schema = pa.schema([table.schema.field(name) for name in names])
        if (delta := self.tables.get(table.name)) is None:
            return schema.empty_table()
        with _in_one_sentence(self.folder):
            # Not by deltalake's file system, which is Python's: Arrow's threads release what they
            # were lent after their answer, and abort a process whose interpreter is then ending.
            fs, path = self.folder.below(table.name).opened()
            dataset = delta.to_pyarrow_dataset(filesystem=pafs.SubTreeFileSystem(path, fs))
            known = [name for name in names if name in dataset.schema.names]
            chosen = None if campaign is None else pc.field(CAMPAIGN) == campaign
            found = dataset.to_table(known, filter=chosen)
        missing = {name: pa.nulls(len(found)) for name in names if name not in known}
        return pa.table({**dict(zip(known, found.columns, strict=True)), **missing}).select(
            names
        ).cast(schema)  # fmt: skip

    def read(self, table: Table, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A table as a frame, or some columns of it. Raises HistoryError."""
        return frame_of(self.rows(table, columns))

    def files(self, table: Table) -> list[str]:
        """The paths or URLs of the Parquet files that make up a table."""
        delta = self.tables.get(table.name)
        uris = [] if delta is None else delta.file_uris()
        folder = self.folder.below(table.name)
        return [folder.place(unquote(uri.rpartition("/")[2])) for uri in uris]

    def replace(
        self, table: Table, campaign: str, runs: Sequence[str] | None, rows: Iterator[pa.Table]
    ) -> None:
        """Replace the rows of some runs, or of all of a campaign, by these, as one commit. Raises
        EnvironmentFailure, and what `rows` raises."""
        first = next((each for each in rows if each.num_rows), None)
        delta, which = self.tables.get(table.name), _which(campaign, runs)
        commit = CommitProperties(custom_metadata={"ackloss": __version__})
        if first is None:
            if delta is not None:
                with _in_one_sentence(self.folder):
                    delta.delete(which, commit_properties=commit)
            return
        failed: list[Exception] = []

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                yield from first.to_batches()
                for each in rows:
                    yield from each.to_batches()
            except Exception as error:
                failed.append(error)  # or all that is left of it is its text
                raise

        uri, options = _address(self.folder, table)
        try:
            with _in_one_sentence(self.folder):
                write_deltalake(
                    uri if delta is None else delta,
                    pa.RecordBatchReader.from_batches(table.schema, batches()),
                    mode="overwrite",
                    predicate=which,
                    schema_mode="merge",
                    storage_options=options,
                    writer_properties=WriterProperties(compression="ZSTD"),
                    commit_properties=commit,
                )
        except EnvironmentFailure as error:
            raise (failed[0] if failed else error) from None

    def tidy(self) -> None:
        """Remove files whose rows were replaced more than a week ago."""
        with _in_one_sentence(self.folder):
            for delta in self.tables.values():
                delta.vacuum(dry_run=False)


def frame_of(rows: pa.Table) -> pd.DataFrame:
    """A table as a frame; maps are dictionaries, and what is missing is missing for pandas."""
    frame: pd.DataFrame = rows.to_pandas(maps_as_pydicts="strict", types_mapper=_MISSING.get)
    return frame


def folder_of(address: str | os.PathLike[str]) -> Folder:
    """The folder of an address: a path, or a URL. Raises HistoryError for one that cannot be
    used."""
    text = os.fspath(address)
    folder = Folder.at(text) if is_url(text) else Folder.of(Path(text))
    if "?" in folder.url:
        raise HistoryError(
            "a lake's URL has no options", file=folder.place(), hint="leave them to the environment"
        )
    if odd := sorted(_UNUSABLE.intersection(folder.place())):
        raise HistoryError(
            f"a lake cannot be in a folder with {odd[0]} in its path", file=folder.place()
        )
    return folder


def open_lake(address: str | os.PathLike[str] | Folder) -> StoredLake:
    """The lake in this place. Raises HistoryError if there is none."""
    folder = address if isinstance(address, Folder) else folder_of(address)
    lake = _opened(folder)
    if CAMPAIGNS.name not in lake.tables:
        raise _no_lake(folder, "name a folder that `ackloss lake build` has made")
    return lake


def open_or_new(folder: Folder) -> StoredLake:
    """The lake in this folder, or one that will be there. Raises HistoryError for a folder that is
    neither a lake nor empty."""
    lake = _opened(folder)
    if not lake.tables and any(
        not name.rpartition("/")[2].startswith(".") for name in folder.files(may_be_absent=True)
    ):
        raise _no_lake(folder, "name a lake, or a folder that is new or empty")
    return lake


def _no_lake(folder: Folder, hint: str) -> HistoryError:
    if folder.has(_EARLIER):
        what = "this lake is of an earlier version"
        return HistoryError(what, file=folder.place(), hint="build it again from its campaigns")
    what = f"this is not a lake: it has no table {CAMPAIGNS.name}"
    return HistoryError(what, file=folder.place(), hint=hint)


def _opened(folder: Folder) -> StoredLake:
    found: dict[str, DeltaTable] = {}
    with _in_one_sentence(folder):
        for table in (CAMPAIGNS, *TABLES.values()):
            uri, options = _address(folder, table)
            try:
                found[table.name] = DeltaTable(uri, storage_options=options)
            except TableNotFoundError:
                continue
    return StoredLake(folder, found)


def _address(folder: Folder, table: Table) -> tuple[str, dict[str, str]]:
    """Where a table is, for the library, with what it does not know from the environment."""
    if folder.local is not None:
        return str(folder.local / table.name), {}
    plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
    return folder.place(table.name), {"AWS_ALLOW_HTTP": "true"} if plain else {}


def _which(campaign: str, runs: Sequence[str] | None) -> str:
    """The rows of a campaign, or of some of its runs, as SQL."""
    of_campaign = f"{CAMPAIGN} = {_quoted(campaign)}"
    if runs is None:
        return of_campaign
    return f"{of_campaign} AND run_id IN ({', '.join(map(_quoted, runs))})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _in_one_sentence(folder: Folder) -> Iterator[None]:
    """What the library raises, as an error that names the lake."""
    try:
        yield
    except CommitFailedError as error:
        raise EnvironmentFailure(
            "another process is writing this lake", file=folder.place(), hint="try again later"
        ) from error
    except (DeltaError, OSError, pa.ArrowException) as error:
        of_a_file = folder.local is not None and "arquet" in str(error)
        if not of_a_file and not isinstance(error, FileNotFoundError | pa.ArrowException):
            raise trouble_at(folder.place(), error) from error
        what = f"a file of this lake is missing or damaged: {str(error).strip().splitlines()[0]}"
        raise HistoryError(what, file=folder.place(), hint=AGAIN) from error
