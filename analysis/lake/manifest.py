"""lake.json: the version of the lake's schema, its campaigns, and which of its files count.

It is replaced last, as one file. So a build that is killed leaves the lake as it was: what the
build had written is in no manifest, and the next build of that campaign removes it.

    {"schema": 1, "ackloss": "0.1.0", "campaigns": [
        {"id": "2026-01-03", "name": "nightly", "plan_hash": "...", "started": "...", ...,
         "parts": {"runs": [{"path": "runs/campaign=2026-01-03/part-00001.parquet",
                             "rows": 240, "bytes": 20480}], ...}}]}

One Parquet file of one table: written row group by row group, with checksums of its pages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Final
from urllib.parse import quote

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from analysis.lake.place import Place
from analysis.lake.schema import CAMPAIGN, SCHEMA_VERSION, TABLES, Table
from harness import __version__
from harness.errors import HistoryError
from harness.wrong_values import expected, first_of

FILE: Final = "lake.json"
NEWER: Final = "use the ackloss that wrote the lake, or a newer one"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One Parquet file: its path in the lake, its rows and its size."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class LakeCampaign:
    """A campaign of the lake. `id` is the name of its folder. `parts` are its files, by table."""

    id: str
    name: str
    plan_hash: str
    simulated: bool
    started: str | None = None
    ended: str | None = None
    workers: int | None = None
    parts: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[str, str]:
        """Equal for two states of one campaign, whatever its folder is called; of one whose start
        is not known, only under one name."""
        return self.plan_hash, self.started or self.id

    def rows(self, table: str) -> int:
        """How many rows it has in a table."""
        return sum(part.rows for part in self.parts.get(table, ()))


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a lake holds."""

    campaigns: tuple[LakeCampaign, ...] = ()

    @property
    def simulated(self) -> bool:
        """Whether nothing real was tested: in all campaigns, or in none."""
        return any(campaign.simulated for campaign in self.campaigns)

    def campaign(self, name: str) -> LakeCampaign | None:
        """The campaign with this id."""
        return next((each for each in self.campaigns if each.id == name), None)

    def with_campaign(self, campaign: LakeCampaign) -> Manifest:
        """The manifest with this campaign as it is now."""
        others = (each for each in self.campaigns if each.id != campaign.id)
        return replace(self, campaigns=tuple(sorted((*others, campaign), key=lambda c: c.id)))

    def parts(self, table: str) -> Iterable[tuple[str, Part]]:
        """The files of a table, each with its campaign."""
        for campaign in self.campaigns:
            for part in campaign.parts.get(table, ()):
                yield campaign.id, part


_MANIFEST: Final = TypeAdapter(Manifest)


def read_manifest(place: Place) -> Manifest | None:
    """The manifest; `None` if there is none. Raises HistoryError for one that is damaged, or of
    a newer schema."""
    body = place.read(FILE)
    if body is None:
        return None
    name = place.name_of(FILE)
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise HistoryError(f"is not JSON: {error}", file=name) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA_VERSION:
        raise HistoryError(
            f"has schema {schema!r}, this ackloss reads {SCHEMA_VERSION}",
            file=name,
            key="schema",
            hint=NEWER,
        )
    try:
        manifest = _MANIFEST.validate_json(body, strict=True)
    except ValidationError as error:
        findings = first_of(error.errors(include_url=False))
        key = ".".join(map(str, findings[0]["loc"]))
        raise HistoryError(f"{key}: {expected(findings)}", file=name) from error
    for table in TABLES:
        for _, part in manifest.parts(table):
            if not _inside(table, part.path):
                raise HistoryError(f"{part.path!r} is not a file of table {table}", file=name)
    return manifest


def write_manifest(place: Place, manifest: Manifest) -> None:
    """Replace the manifest. Raises EnvironmentFailure."""
    document = {"schema": SCHEMA_VERSION, "ackloss": __version__, **asdict(manifest)}
    body = orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n"
    place.write(FILE, lambda stream: stream.write(body))


def _inside(table: str, path: str) -> bool:
    """Whether it is a file in a folder of the table; a lake may come from a stranger."""
    parts = PurePosixPath(path).parts
    return len(parts) == 3 and parts[0] == table and ".." not in parts and path.endswith(".parquet")


ROWS: Final = 2**17
"""Rows of a group: what is held in memory of a table."""


def folder_of(table: Table, campaign: str) -> str:
    """The folder of a campaign's rows, whatever characters its name has."""
    return f"{table.name}/{CAMPAIGN}={quote(campaign, safe='')}"


def write_part(
    place: Place, table: Table, campaign: str, number: int, rows: Iterator[pa.Table]
) -> Part | None:
    """Write these rows as one file, which no manifest names yet; `None` if there are none.
    Raises EnvironmentFailure."""
    first = next((each for each in rows if each.num_rows), None)
    if first is None:
        return None
    path = f"{folder_of(table, campaign)}/part-{number:05d}.parquet"
    written = _Counted(table)
    place.write(path, lambda stream: written.write(stream, first, rows))
    return Part(path=path, rows=written.rows, bytes=written.bytes)


class _Counted:
    """Writes row groups, and counts what it has written."""

    def __init__(self, table: Table) -> None:
        self.rows, self.bytes = 0, 0
        self._schema = table.stored

    def write(self, stream: Any, first: pa.Table, others: Iterator[pa.Table]) -> None:
        with pq.ParquetWriter(
            stream, self._schema, compression="zstd", write_page_checksum=True
        ) as writer:
            waiting, held = [first], first.num_rows
            for rows in others:
                waiting.append(rows)
                held += rows.num_rows
                if held >= ROWS:
                    self._flush(writer, waiting)
                    waiting, held = [], 0
            self._flush(writer, waiting)
        self.bytes = stream.tell()

    def _flush(self, writer: pq.ParquetWriter, waiting: list[pa.Table]) -> None:
        if waiting:
            rows = pa.concat_tables(waiting)
            writer.write_table(rows, row_group_size=ROWS)
            self.rows += rows.num_rows


def read_part(place: Place, table: Table, part: Part, *, without: Set[str]) -> pa.Table:
    """The rows of a file but those of some runs. Raises HistoryError, also for a file with columns
    of a newer ackloss."""
    rows = columns_of(place, part)
    if newer := [name for name in rows.column_names if name not in table.stored.names]:
        raise HistoryError(
            f"has the column {newer[0]!r}, which this ackloss does not know and would drop",
            file=place.name_of(part.path),
            hint=NEWER,
        )
    missing = [column for column in table.stored if column.name not in rows.column_names]
    for column in missing:
        rows = rows.append_column(column, pa.nulls(len(rows), column.type))
    kept = pc.invert(pc.is_in(rows["run_id"], pa.array(sorted(without), pa.string())))
    return rows.select(table.stored.names).filter(kept).cast(table.stored)


def columns_of(place: Place, part: Part, columns: list[str] | None = None) -> pa.Table:
    """All columns of a file, or those of these that it has. Raises HistoryError for a file that is
    missing or damaged."""
    name = place.name_of(part.path)
    try:
        with (
            place.filesystem.open_input_file(f"{place.root}/{part.path}") as stream,
            pq.ParquetFile(stream, page_checksum_verification=True) as file,
        ):
            names = file.schema_arrow.names
            known = names if columns is None else [name for name in columns if name in names]
            return file.read(columns=known, use_threads=False)
    except FileNotFoundError as error:
        raise HistoryError("is missing", file=name, hint=AGAIN) from error
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(
            "cannot be read: its Parquet is damaged", file=name, hint=AGAIN
        ) from error


AGAIN: Final = "build the lake again in another folder, or copy it again"
