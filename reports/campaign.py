"""`report.html` of a campaign, and beside it what mail and other programs take.

campaign.json  every cell with its intervals, and the cells compared
report.html    the page; one file, opens from disk, needs no network
figures/       matrix, trade-off and distributions, as PNG and SVG
tables/        cells, runs and comparisons, as CSV and Parquet
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import orjson

from analysis import drawing
from analysis.campaign import clusters_of, results_of, rows_of, summed_up
from analysis.campaign_figures import drawn
from analysis.palette import DARK, LIGHT
from analysis.tables import write_tables
from harness.campaigns.folder import CampaignDir
from harness.campaigns.progress import read_progress
from harness.errors import AcklossError, EnvironmentFailure
from harness.history.run_folder import RunDir, write_atomically
from reports import html
from reports.beside import LABELS, alone, cell_rows, references
from reports.cells import CLASSES, CampaignStory
from reports.conclusions import ALPHA, counting, has_many_others, interval
from reports.page import write_report
from reports.run_table import run_table
from reports.story import trusting


def write_run_pages(folder: CampaignDir) -> int:
    """Write the page of every run that still has its history, on all cores; returns how many."""
    judged_runs = [run for run in folder.runs_with_history() if run.result.is_file()]
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        return sum(pool.map(_write_page, judged_runs, chunksize=4))


def _write_page(run: RunDir) -> bool:
    """Whether a run's page could be written: one that cannot stops no other."""
    try:
        write_report(run)
    except AcklossError:
        return False
    return True


def write_campaign(folder: CampaignDir) -> Path:
    """Write a campaign's document, page, figures and tables; returns the page's path. May be
    called at any time: while the campaign is played, after a crash, when it has ended.

    Raises HistoryError when the folder's files cannot be read, EnvironmentFailure when the page
    cannot be written.
    """
    with trusting(folder):
        told = _story(folder)
        stills = _write_figures(told)
        page = html.render(
            "campaign.html.j2",
            data=run_table(told),
            script="campaign.js",
            story=told,
            stills=stills,
            classes=CLASSES,
            alpha=ALPHA,
            interval=interval,
            counting=counting,
            many_others=has_many_others,
            labels=LABELS,
            references=[(one, alone(one)) for one in told.references],
            own=cell_rows([cell["name"] for cell in told.document["cells"]], told.rows),
        )
        _made(folder.tables)
        write_tables(
            {
                "cells": told.document["cells"],
                "runs": told.rows,
                "comparisons": told.document["comparisons"],
            },
            folder.tables,
        )
    write_atomically(folder.result, orjson.dumps(told.document, option=orjson.OPT_INDENT_2))
    write_atomically(folder.report, page)
    return folder.report


def _story(folder: CampaignDir) -> CampaignStory:
    cells = folder.campaign().cells
    progress = read_progress(folder.journal)
    results = list(results_of(folder, progress))
    return CampaignStory(
        folder=folder,
        document=summed_up(folder, progress, results),
        rows=rows_of(results, clusters_of(folder, (run for run, _ in results))),
        progress=progress,
        alive=folder.alive,
        references=references(*(cell.resolved.plan.document() for cell in cells)),
        model=any(cell.resolved.plan.cluster.kind == "model" for cell in cells),
    )


def _write_figures(told: CampaignStory) -> Mapping[str, Mapping[str, str]]:
    """Write all figures on light paper; returns them on light and dark paper as data URIs."""
    _made(told.folder.figures)
    stills: dict[str, dict[str, str]] = {}
    for theme, colours in (("light", LIGHT), ("dark", DARK)):
        for name, figure in drawn(told.document["cells"], told.table, told.rows, colours).items():
            content = drawing.svg(figure)
            stills.setdefault(name, {})[theme] = html.picture(content, "image/svg+xml")
            if theme == "light":
                write_atomically(told.folder.figures / f"{name}.svg", content)
                write_atomically(told.folder.figures / f"{name}.png", drawing.png(figure))
    return stills


def _made(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise EnvironmentFailure(
            f"cannot make the folder: {error.strerror}", file=str(folder)
        ) from error
