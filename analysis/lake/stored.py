"""A lake that is there: its tables, read when they are requested.

Only files that the manifest names are read, each with the columns of the schema: one that a file
lacks is null. The size of every file is compared with the manifest, and the checksums of its pages
are verified.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from analysis.lake.manifest import FILE, Manifest, Part, read_manifest
from analysis.lake.parts import AGAIN, columns_of
from analysis.lake.place import Place
from analysis.lake.schema import CAMPAIGN, TABLES, Table
from harness.errors import HistoryError

_FORMAT: Final = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
_MISSING: Final = {
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}
"""Types of pandas that have a value which is missing."""


@dataclass(frozen=True)
class StoredLake:
    """A lake as its manifest was when it was opened."""

    place: Place
    manifest: Manifest

    @property
    def simulated(self) -> bool:
        """Whether nothing real was tested."""
        return self.manifest.simulated

    def dataset(self, table: Table, campaign: str | None = None) -> ds.Dataset:
        """A table, or its rows of one campaign, as a dataset of Arrow, not read yet. Raises
        HistoryError for a file of it that is missing or of another size."""
        parts = [each for each in self.manifest.parts(table.name) if campaign in (None, each[0])]
        self._check_sizes(table, parts)
        fragments = [
            _FORMAT.make_fragment(
                f"{self.place.root}/{part.path}",
                self.place.filesystem,
                partition_expression=pc.field(CAMPAIGN) == name,
            )
            for name, part in parts
        ]
        if not fragments:
            return ds.dataset(table.schema.empty_table())
        return ds.FileSystemDataset(fragments, table.schema, _FORMAT, self.place.filesystem)

    def read(self, table: Table, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A table as a frame, or some columns of it. Raises HistoryError."""
        return frame_of(self.rows(table, columns))

    def rows(
        self, table: Table, columns: Sequence[str] | None = None, *, campaign: str | None = None
    ) -> pa.Table:
        """The rows of a table, or of a campaign in it, with all columns or some. Raises
        HistoryError."""
        dataset, chosen = self.dataset(table, campaign), None if columns is None else list(columns)
        try:
            return dataset.to_table(columns=chosen)
        except (OSError, pa.ArrowException) as error:
            self.find_damage()
            raise HistoryError(f"cannot be read: {error}", file=self.place.shown) from error

    def find_damage(self) -> None:
        """Read every file. Raises HistoryError for the first one that is missing or damaged."""
        for table in TABLES.values():
            parts = list(self.manifest.parts(table.name))
            self._check_sizes(table, parts)
            for _, part in parts:
                columns_of(self.place, part, table.stored.names)

    def _check_sizes(self, table: Table, parts: Iterable[tuple[str, Part]]) -> None:
        sizes = self.place.sizes(table.name)
        for _, part in parts:
            found = sizes.get(part.path)
            if found == part.bytes:
                continue
            if read_manifest(self.place) != self.manifest:
                raise HistoryError(
                    "a build has changed this lake since it was opened",
                    file=self.place.shown,
                    hint="open it again",
                )
            what = "is missing"
            if found is not None:
                what = f"has {found:,} bytes, not {part.bytes:,} as {FILE} says"
            raise HistoryError(
                what,
                file=self.place.name_of(part.path),
                hint=AGAIN,
            )


def frame_of(rows: pa.Table) -> pd.DataFrame:
    """A table as a frame; maps are dictionaries, and what is missing is missing for pandas."""
    frame: pd.DataFrame = rows.to_pandas(maps_as_pydicts="strict", types_mapper=_MISSING.get)
    return frame


def open_lake(place: Place) -> StoredLake:
    """The lake in this place. Raises HistoryError if there is none, or one of a newer schema."""
    manifest = read_manifest(place)
    if manifest is None:
        raise HistoryError(
            f"this is not a lake: it has no {FILE}",
            file=place.shown,
            hint="name a folder that `ackloss lake build` has made",
        )
    return StoredLake(place, manifest)
