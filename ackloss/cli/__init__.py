"""The command line: one module per verb in `verbs/`, found by its name.

Heavy libraries (Spark, matplotlib, Docker, Kafka's clients) are imported only inside the commands
that need them, so that `ackloss --help` is fast.
"""

from __future__ import annotations

import importlib
import pkgutil

import rich_click as click

from ackloss.cli import verbs
from ackloss.cli.output import Program
from harness import __version__

EPILOG = """Exit codes: 0 valid, 1 invalid, 2 usage, 3 unknown, 4 bad plan or history,
5 environment (no Docker, no Java, no disk), 6 harness failure, 130 interrupted."""


@click.group(cls=Program, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ackloss")
def main() -> None:
    """With these settings, under these faults, how many acknowledged writes does this cluster lose?

    ackloss runs a plan on a real cluster in containers, injects faults on schedule, records every
    operation, and counts the acknowledged writes that are lost.
    """


for _module in pkgutil.iter_modules(verbs.__path__):
    _verb = importlib.import_module(f"{verbs.__name__}.{_module.name}")
    main.add_command(getattr(_verb, _module.name))
