"""Stored runs, campaigns and lakes as pandas data frames."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import AcklossError
from harness.history.documents import RunResult, StoredRun, read_result, read_run, result_of
from harness.history.run_folder import RunDir

if TYPE_CHECKING:
    import pandas as pd

    from analysis.drawing import Picture
    from analysis.lake.delta import StoredLake, Table
    from harness.campaigns.folder import CampaignDir


def notebook() -> Any | None:
    """The shell of the notebook that this process serves; `None` elsewhere."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell if hasattr(shell, "kernel") else None


@dataclass(frozen=True, repr=False)
class Run:
    """A stored run: its documents, and its rows as data frames.

    Nothing is kept in memory: each property and method reads the run's folder. All raise
    HistoryError for a file that is absent, damaged or of a newer ackloss.
    """

    path: Path

    def __repr__(self) -> str:
        return f"<Run {self.id}: {'; '.join(self._in_short())}>"

    def _repr_html_(self) -> str:
        """The same for a notebook, with the counts and the longest gap."""
        head, *rest = (escape(part) for part in self._in_short())
        return (
            f"<p><b>{head}</b><br>{'<br>'.join(rest)}<br><code>{escape(str(self.path))}</code></p>"
        )

    def _in_short(self) -> list[str]:
        """What was run and what came out, a line each; nothing raises here."""
        try:
            plan = str(self.plan["name"])
            if not self._folder.result.exists() and not self._folder.cell_names():
                return [plan, f"not judged ({self.metadata.state})"]
            result = self.result
        except AcklossError as error:
            return [f"cannot be read: {error}"]
        gap_s = result.availability.longest_gap_s
        counts = result.counts
        return [
            f"{'simulated, ' if result.simulated else ''}{plan}: {result.verdict.upper()}",
            result.reason or "",
            f"{counts.acknowledged:,} of {counts.attempted:,} acknowledged, {counts.lost:,} lost"
            + ("" if gap_s is None else f", longest time without an acknowledgement {gap_s:.1f} s"),
        ]

    @property
    def id(self) -> str:
        """The run's id, which is its folder's name."""
        return self.path.resolve().name

    @property
    def plan(self) -> dict[str, Any]:
        """The plan that was run, with all defaults (`plan.json`)."""
        return self._folder.read_json(self._folder.plan)

    @property
    def metadata(self) -> StoredRun:
        """What ran: versions, settings, nodes, timings, warnings (`run.json`)."""
        return read_run(self._folder)

    @property
    def simulated(self) -> bool:
        """Whether nodes and system were simulated. Never mix such results with real ones."""
        return bool(self._folder.read_json(self._folder.run).get("simulated", False))

    @property
    def result(self) -> RunResult:
        """The verdict with its counts and rates (`result.json`); `ackloss.check` writes it. Of a
        shared run of a campaign, which was judged cell by cell, those of its cells together."""
        from checkers.judging.one_run import stored_result

        document = stored_result(self._folder)
        if document is None:
            return read_result(self._folder)
        return result_of(document, file=self._folder.result)

    def history(self) -> pd.DataFrame:
        """Every operation: a row for each invocation and each completion (`type`), with `f`, `key`,
        `value`, `process`, `error`, `time_s` ... Rows of the nemesis have process -1."""
        from analysis import frames

        return frames.history(self._folder)

    def writes(self) -> pd.DataFrame:
        """A row for each write: `value`, `process`, `begin_s` (when it was due), `latency_ms` from
        then on, and `outcome`: ok, fail, info, open (never completed), absent (acknowledged, not
        yet visible) or lost."""
        from analysis import frames
        from harness.models import MODELS

        return frames.writes(self._folder, MODELS[self.metadata.promises.model])

    def reads(self) -> pd.DataFrame:
        """Every record that the final read has found, with its `reader`."""
        from analysis import frames

        return frames.reads(self._folder)

    def observations(self) -> pd.DataFrame:
        """What each node answered when it was queried for who leads, in the order of time."""
        from analysis import frames

        return frames.observations(self._folder)

    def faults(self) -> pd.DataFrame:
        """A row for each fault: `id`, `nemesis`, `nodes`, `from_s`, `to_s`, `proven`, `evidence`
        ... `ops_begun` is known once the run has been judged."""
        from analysis import frames

        result = read_result(self._folder) if self._folder.result.exists() else None
        return frames.faults(self._folder, result)

    def findings(self) -> pd.DataFrame:
        """What the checkers have found, a row each: `checker`, `kind`, `value` ..."""
        from analysis import frames

        return frames.findings(self._folder)

    @property
    def cells(self) -> dict[str, Run]:
        """The cells of a run that holds several, by name, each a separate run; else empty."""
        names = self._folder.cell_names()
        return {cell.path.name: Run(cell.path) for cell in self._folder.cells() if names}

    def plot(self) -> Picture:
        """The run's timeline as a matplotlib figure: faults, latency and outcome of each write,
        rates, who led. A notebook shows it; `savefig` writes it."""
        from reports.page import drawn
        from reports.run_view import malformed_is_history_error, run_view

        with malformed_is_history_error(self._folder):
            figure = drawn(run_view(self._folder))
        if (shell := notebook()) is not None:
            from IPython.core.pylabtools import select_figure_formats

            select_figure_formats(shell, {"png"})  # type: ignore[no-untyped-call]
        return figure

    def report(self) -> Path:
        """Write the run's page, `report.html`, and return its path."""
        from reports.page import write_report

        return write_report(self._folder)

    @property
    def _folder(self) -> RunDir:
        return RunDir(self.path)


@dataclass(frozen=True)
class Campaign:
    """A stored campaign, also while it runs: its tables as data frames.

    A nested field is a column with dots, such as `lossy_share.estimate`. All raise HistoryError.
    """

    path: Path

    def cells(self) -> pd.DataFrame:
        """A row for each cell: its key, runs, verdicts, shares and rates with their intervals."""
        from analysis.campaign import campaign_document

        return _table([asdict(cell) for cell in campaign_document(self._folder).cells])

    def runs(self) -> pd.DataFrame:
        """A row for each finished run: cell, verdict, counts, rates, faults, seconds ..."""
        from analysis.campaign import run_rows

        return _table(run_rows(self._folder))

    def comparisons(self) -> pd.DataFrame:
        """A row for each pair of cells that differ in one axis, with the difference and its
        test."""
        from analysis.campaign import campaign_document

        return _table([asdict(each) for each in campaign_document(self._folder).comparisons])

    def run(self, run_id: str) -> Run:
        """One run of the campaign. Raises HistoryError if there is none."""
        return load_run(self._folder.run(run_id).path)

    @property
    def _folder(self) -> CampaignDir:
        from harness.campaigns.folder import CampaignDir

        return CampaignDir(self.path)


def load_run(path: str | os.PathLike[str]) -> Run:
    """The run in this folder. Raises HistoryError if there is none."""
    return Run(RunDir.open(Path(path)).path)


def load_campaign(path: str | os.PathLike[str]) -> Campaign:
    """The campaign in this folder. Raises HistoryError if there is none."""
    from harness.campaigns.folder import CampaignDir

    return Campaign(CampaignDir.open(Path(path)).path)


def _table(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    from analysis.tables import frame

    table: pd.DataFrame = frame(rows).to_pandas()
    return table


@dataclass(frozen=True)
class Lake:
    """What many campaigns found, as tables (docs/how-to/lake.md).

    Nothing is kept in memory: each method reads its table, or the columns of it that are named. The
    lake is seen as it was when it was opened. All raise HistoryError for a damaged file, and
    QueryError for columns that the table does not have, and where `columns` is not a list of names.
    """

    _stored: StoredLake

    @property
    def campaigns(self) -> list[str]:
        """The campaigns that it holds."""
        return [campaign.id for campaign in self._stored.campaigns]

    @property
    def simulated(self) -> bool:
        """Whether nothing real was tested, in all of them."""
        return self._stored.simulated

    def runs(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each finished run."""
        return self._table("runs", columns)

    def cells(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each judged cell: the unit of statistics."""
        return self._table("cells", columns)

    def faults(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each fault of each judged cell."""
        return self._table("faults", columns)

    def findings(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each thing that a checker has found."""
        return self._table("findings", columns)

    def observations(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each answer of a node that was queried for who leads."""
        return self._table("observations", columns)

    def ops(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """A row for each invocation and completion; empty unless the lake was built with --ops."""
        return self._table("ops", columns)

    def sql(self, query: str) -> pd.DataFrame:
        """The answer of one query over these tables, by Spark. Raises QueryError where it cannot be
        run."""
        from analysis.lake.delta import frame_of
        from analysis.lake.query import query as answer

        return frame_of(answer(self._stored, query))

    def _table(self, name: str, columns: Sequence[str] | None) -> pd.DataFrame:
        from analysis.lake.delta import TABLES

        table = TABLES[name]
        return self._stored.read(table, None if columns is None else _chosen(columns, table))


def _chosen(columns: Iterable[str], table: Table) -> list[str]:
    """These columns of a table. Raises QueryError where it does not have them."""
    from harness.errors import QueryError, nearest

    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise QueryError(
            f"{columns!r} is not a list of columns",
            key="columns",
            hint='write a list, such as ["campaign", "run_id"]',
        )
    chosen, known = list(columns), table.schema.names
    for name in chosen:
        if name not in known:
            near = nearest(name, known) if isinstance(name, str) else None
            question = f"did you mean {near!r}? " if near else ""
            raise QueryError(
                f"the table {table.name} has no column {name!r}",
                key="columns",
                hint=f'{question}lake.sql("DESCRIBE {table.name}") lists its columns',
            )
    return chosen


def lake(address: str | os.PathLike[str]) -> Lake:
    """The lake in this folder, or at this `file://` or `s3://` address. Raises HistoryError if
    there is none."""
    from analysis.lake.delta import open_lake

    return Lake(open_lake(address))
