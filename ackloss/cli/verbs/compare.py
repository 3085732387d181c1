"""`ackloss compare`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from ackloss.cli.output import Output, with_output

_PATH = click.Path(exists=True, path_type=Path)


@click.command()
@click.argument("a", type=_PATH)
@click.argument("b", type=_PATH)
@click.option("--page", type=click.Path(path_type=Path), help="Where to write the page.")
@with_output
def compare(out: Output, a: Path, b: Path, page: Path | None) -> None:
    """Compare two runs on one page, differences first."""
    from harness.history.run_folder import RunDir
    from reports.compare import write_comparison
    from reports.formatting import SIMULATED

    first, second = RunDir.open(a), RunDir.open(b)
    written = page or second.path.parent / f"compare-{first.run_id}-{second.run_id}.html"
    document = write_comparison(first, second, written)
    out.document({"schema": 1, "page": str(written), **document})
    if not out.json:
        if document["simulated"]:
            out.say(SIMULATED, style="yellow")
        out.say(written)
