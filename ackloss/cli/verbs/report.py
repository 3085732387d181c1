"""`ackloss report`."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from ackloss.cli.output import Output, with_output


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--each", is_flag=True, help="Also write the page of each run of a campaign.")
@with_output
def report(out: Output, runs: tuple[Path, ...], each: bool) -> None:
    """Write the pages of RUNS (folders of runs or campaigns) again, from their stored results."""
    from harness.campaigns.folder import CampaignDir
    from harness.history.run_folder import RunDir
    from reports.page import write_report

    pages = []
    for path in runs:
        campaign = CampaignDir(path)
        if campaign.exists:
            from reports.campaign import write_campaign, write_run_pages  # scipy takes a second

            if each:
                out.say(f"{write_run_pages(campaign):,} pages of runs")
            page = write_campaign(campaign, out.note)
        else:
            page = write_report(RunDir.open(path))
        pages.append(str(page))
        if not out.json:
            out.say(page)
    out.document({"schema": 1, "reports": pages})
