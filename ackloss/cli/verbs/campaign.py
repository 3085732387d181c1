"""`ackloss campaign run|resume|status|plan|compare|prune`."""

from __future__ import annotations

import rich_click as click

from ackloss.cli.campaign_compare import compare, prune
from ackloss.cli.campaign_run import plan, resume, run
from ackloss.cli.campaign_status import status


@click.group()
def campaign() -> None:
    """Run a matrix of settings and faults many times, and compare the cells, with intervals."""


for _command in (run, resume, status, plan, compare, prune):
    campaign.add_command(_command)
