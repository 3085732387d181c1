"""`ackloss mine`: the user's own settings under the stock faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from ackloss.cli.campaign_run import run_new, with_campaign_options
from ackloss.cli.output import Output, with_output
from ackloss.cli.own_settings import CommandWithSettingsFiles


@click.command(cls=CommandWithSettingsFiles)
@with_campaign_options
@with_output
def mine(out: Output, **chosen: Any) -> None:
    """Run your own settings under the stock faults, with safe settings beside them.

    Name your files, such as --broker-settings server.properties --producer-settings
    producer.properties. It is the campaign `mine`, a few minutes long: a broker dies, the leader is
    isolated, a zone is cut off, brokers are restarted, all lose power.

    The exit code is 1 if your settings lost acknowledged writes, 3 if that is not known, else 0.
    Power loss of all brokers does not count: no setting but a flush after each write prevents it.
    """
    run_new(out, Path("mine"), **chosen)
