"""`ackloss version`."""

from __future__ import annotations

import platform
from importlib.metadata import version as installed

import rich_click as click

from ackloss.cli.output import Output, with_output
from harness import __version__


@click.command()
@with_output
def version(out: Output) -> None:
    """Show the versions of ackloss and of the libraries that it uses."""
    versions = {
        "ackloss": __version__,
        "python": platform.python_version(),
        **{name: installed(name) for name in (*_client_libraries(), "pyspark")},
    }
    for name, value in versions.items():
        if not out.json:
            out.say(f"{name:16} {value}")
    out.document({"schema": 1, "versions": versions})


def _client_libraries() -> list[str]:
    """The Python packages of every target's clients."""
    from harness import registry

    targets = (registry.target_named(name) for name in registry.usable("targets"))
    return [name for each in targets for name in each.packages]
