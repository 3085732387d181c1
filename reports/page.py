"""`report.html`: the page of one run, in one file, and beside it the files that it points to.

report.html    the page; opens from disk, needs no network
lost.csv       every lost write
timeline.png   the timeline with its headline, for mail
"""

from __future__ import annotations

from pathlib import Path

from analysis import drawing, figures
from analysis.logs import logged
from analysis.lost import write_csv
from analysis.palette import DARK, LIGHT
from harness.history.run_folder import RunDir, write_atomically
from reports import html
from reports.beside import beside
from reports.payload import payload
from reports.story import Story, story, trusting


def write_report(run: RunDir) -> Path:
    """Write the page of a run, its table of lost writes and its picture; returns the page's path.

    Raises HistoryError when the run's files cannot be read, EnvironmentFailure when the page cannot
    be written.
    """
    with trusting(run):
        told = story(run)
        picture = figures.draw(
            told.line, headline=told.headline, sentence=told.sentence, called=told.called
        )
        end_s = told.line.scale.end_s
        page = html.render(
            "report.html.j2",
            data=[payload(told.line, title=told.name, called=told.called)],
            story=told,
            stills=stills(told),
            beside=beside([told.counts], told.references),
            logged=logged(run, wall_time=told.facts.get("wall_time"), end_s=end_s),
            csv=run.lost_csv.name,
            png=run.figure.name,
        )
    if told.result is not None:
        write_csv(told.all_lost, run.lost_csv)
    write_atomically(run.figure, drawing.png(picture))
    write_atomically(run.report, page)
    return run.report


def stills(told: Story) -> dict[str, str]:
    """The timeline as still pictures on light and on dark paper, as data URIs."""
    return {
        name: html.picture(
            drawing.svg(figures.draw(told.line, colours=colours, called=told.called)),
            "image/svg+xml",
        )
        for name, colours in (("light", LIGHT), ("dark", DARK))
    }
