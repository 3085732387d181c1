"""`report.html`: the page of one run in one file, and the files that it links to.

report.html    the page; opens from disk, needs no network
lost.csv       every lost write
timeline.png   the timeline with its headline, for mail
"""

from __future__ import annotations

from pathlib import Path

from analysis import drawing, figures
from analysis.logs import logged
from analysis.lost import write_csv
from harness.history.run_folder import RunDir, write_atomically
from reports import html
from reports.cells import write_cells
from reports.payload import payload
from reports.references import compared
from reports.run_view import RunView, malformed_is_history_error, run_view


def write_report(run: RunDir) -> Path:
    """Write the page of a run, its table of lost writes and its picture; returns the page's path.
    Of a run with cells each cell gets such a page, and the run one that compares them.

    Raises HistoryError when the run's files cannot be read, EnvironmentFailure when the page cannot
    be written.
    """
    if run.cell_names():
        for cell in run.cell_folders():
            write_report(cell)
        return write_cells(run)
    with malformed_is_history_error(run):
        view = run_view(run)
        labels = view.outcome_labels
        picture = drawn(view)
        end_s = view.line.scale.end_s
        page = html.render(
            "report.html.j2",
            data=[payload(view.line, title=view.name, labels=labels)],
            view=view,
            simulated=view.simulated,
            stills=stills(view),
            reference_rows=compared([view.counts], view.references),
            logged=logged(run, wall_time=view.metadata.wall_time, end_s=end_s),
            csv=run.lost_csv.name,
            png=run.figure.name,
        )
    if view.result is not None:
        write_csv(view.all_lost, run.lost_csv)
    write_atomically(run.figure, drawing.png(picture))
    write_atomically(run.report, page)
    return run.report


def drawn(view: RunView) -> drawing.Picture:
    """The timeline with its headline: a picture that is seen without its page."""
    return figures.draw(
        view.line,
        headline=f"Simulated: {view.headline}" if view.simulated else view.headline,
        sentence=f"nothing real was tested, {view.sentence}" if view.simulated else view.sentence,
        labels=view.outcome_labels,
    )


def stills(view: RunView) -> dict[str, str]:
    """The timeline as still pictures on light and on dark paper, as data URIs."""
    return html.on_both_papers(
        lambda colours: drawing.svg(
            figures.draw(view.line, colours=colours, labels=view.outcome_labels)
        )
    )
