"""`report.html` of a campaign, and the files for mail and for other programs.

campaign.json  every cell with its intervals, and the cells compared
report.html    the page; one file, opens from disk, needs no network
figures/       matrix, trade-off and distributions, as PNG and SVG
tables/        cells, runs and comparisons, as CSV and Parquet
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import orjson

from analysis import drawing
from analysis.campaign import clusters_of, results_of, rows_of, summarised, unread_in_words
from analysis.campaign_figures import drawn
from analysis.palette import LIGHT
from analysis.statistics.contrasts import ALPHA
from analysis.tables import write_tables
from harness.campaigns.folder import CampaignDir
from harness.errors import AcklossError, EnvironmentFailure
from harness.history.run_folder import RunDir, write_atomically
from reports import html
from reports.answer import answer
from reports.campaign_view import CampaignView, listing, run_table
from reports.conclusions import closing, has_many_others, interval
from reports.page import write_report
from reports.references import LABELS, cell_rows, figures_of, references
from reports.run_view import malformed_is_history_error


def write_run_pages(folder: CampaignDir, only: Collection[str] | None = None) -> int:
    """Write the page of every run that still has its history, or only of these, on all cores;
    return their number."""
    judged_runs = [
        run
        for run in folder.runs_with_history()
        if run.result.is_file() and (only is None or run.run_id in only)
    ]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        return sum(pool.map(_write_page, judged_runs, chunksize=4))


def _write_page(run: RunDir) -> bool:
    """Whether the page could be written; a run that cannot be read does not stop the others."""
    try:
        write_report(run)
    except AcklossError:
        return False
    return True


def write_campaign(folder: CampaignDir, note: Callable[[str], object] = lambda _: None) -> Path:
    """Write a campaign's document, page, figures and tables; return the page's path. This works at
    any time: while the campaign runs, after a crash, after its end. `note` gets a sentence for each
    run whose result cannot be read.

    Raises HistoryError when the folder's files cannot be read, EnvironmentFailure when the page
    cannot be written.
    """
    with malformed_is_history_error(folder):
        view = _view(folder)
        for sentence in unread_in_words(view.rows):
            note(sentence)
        stills = _write_figures(view)
        listed = listing(view)
        page = html.render(
            "campaign.html.j2",
            data=run_table(view, listed),
            listed=listed,
            script="campaign.js",
            view=view,
            simulated=view.document.simulated,
            stills=stills,
            classes=view.classes,
            finding=view.finding,
            alpha=ALPHA,
            interval=interval,
            many_others=has_many_others,
            labels=LABELS,
            references=[(one, figures_of(one)) for one in view.references],
            own=cell_rows([cell.name for cell in view.document.cells], view.rows),
        )
        _make(folder.tables)
        write_tables(
            {
                "cells": [asdict(cell) for cell in view.document.cells],
                "runs": view.rows,
                "comparisons": [asdict(each) for each in view.document.comparisons],
            },
            folder.tables,
        )
    document = {**view.document.json(), "answer": view.answer.json() if view.answer else None}
    write_atomically(folder.result, orjson.dumps(document, option=orjson.OPT_INDENT_2))
    write_atomically(folder.report, page)
    return folder.report


def _view(folder: CampaignDir) -> CampaignView:
    campaign, progress = folder.campaign(), folder.progress()
    results = list(results_of(folder, progress))
    document = summarised(folder, progress, results)
    rows = rows_of(results, clusters_of(folder, (run for run, _ in results)))
    return CampaignView(
        folder=folder,
        document=replace(document, closing=closing(document, folder, campaign, progress)),
        rows=rows,
        progress=progress,
        alive=folder.alive,
        references=references(*(cell.resolved.plan.document() for cell in campaign.cells)),
        answer=answer(campaign, results, rows),
    )


def _write_figures(view: CampaignView) -> Mapping[str, Mapping[str, str]]:
    """Write all figures; return each as a data URI. There is one picture for light and dark paper,
    which the page inverts: a second one of many runs takes a fifth of the page."""
    _make(view.folder.figures)
    stills: dict[str, dict[str, str]] = {}
    for name, figure in drawn(view.document, view.table, view.rows, LIGHT).items():
        stills[name] = {"both": html.picture(drawing.svg(figure, outlines=False))}
        write_atomically(view.folder.figures / f"{name}.svg", drawing.svg(figure))
        write_atomically(view.folder.figures / f"{name}.png", drawing.png(figure))
    return stills


def _make(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot make the folder: {error.strerror}", file=str(folder)
        ) from error
