"""The command line, a module for each group of verbs; what they do is `ackloss.session`'s.

Heavy libraries (Spark, matplotlib, Docker, Kafka's clients) are imported only inside the commands
that need them, so that `ackloss --help` is fast.
"""

from __future__ import annotations

import os

import rich_click as click

from ackloss.cli import campaign, client, lake, listing, machine, plans, run, stored
from ackloss.cli.output import Program
from harness import __version__
from harness.registry import FOLDERS

EPILOG = """Exit codes: 0 valid, 1 invalid, 2 usage, 3 unknown, 4 bad plan or history,
5 environment (no Docker, no Java, no disk), 6 harness failure, 130 interrupted."""


@click.group(cls=Program, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ackloss")
@click.option(
    "--plugin",
    "folders",
    type=click.Path(exists=True, file_okay=False, resolve_path=True),
    multiple=True,
    metavar="FOLDER",
    help="A folder of plug-in files, which need no installation (repeatable).",
)
def main(folders: tuple[str, ...]) -> None:
    """With these settings, under these faults, how many acknowledged writes does this cluster lose?

    ackloss runs a plan on a real cluster in containers, injects faults on schedule, records every
    operation, and counts the acknowledged writes that are lost.
    """
    if folders:
        os.environ[FOLDERS] = os.pathsep.join(folders)


_VERBS = (
    *(run.run, campaign.mine, plans.new, stored.check, stored.explain),
    *(stored.report, stored.compare),
    *(campaign.campaign, lake.lake, client.client, stored.ls, stored.show, machine.clean),
    *(machine.doctor, machine.prepare, plans.plan, listing.list, listing.version),
)
for _verb in _VERBS:
    main.add_command(_verb)
