"""Verbs, options and help, the schema of plans, and what is refused of a plan."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from ackloss.cli import main
from tests.contracts.conftest import Frozen, as_text, normalised
from tests.fixtures.command_line import ackloss

BAD_CHANGES: Final = (
    "no_such_key=1",
    "topic.partitons=3",
    "topic.replication_factor=9",
    'target.version="1.2"',
    'target.system="no-such-system"',
    'target.settings."node.id"=7',
    'target.settings."log.dirs"="/tmp"',
    'topic.settings."no.such.setting"=1',
    'workload.name="no-such-workload"',
    "workload.rate_per_s=-1",
    'workload.producer.acks="2"',
    'workload.producer."bootstrap.servers"="elsewhere:9092"',
    'cluster.kind="no-such-kind"',
    'cluster.image="; rm -rf /"',
    'checks=["no-such-checker"]',
    'checks=["cas"]',
    'expect="maybe"',
    'faults=[{id="a", at_s=1, nemesis="no-such-nemesis", nodes="any", for_s=1}]',
    'faults=[{id="a", at_s=1, nemesis="kill", nodes="everybody", for_s=1}]',
    'faults=[{id="a", at_s=900, nemesis="kill", nodes="any", for_s=1}]',
    'faults=[{id="a", at_s=1, nemesis="kill", nodes="any", for_s=1, run="rm"}]',
    'schedule="no-such-schedule"',
)
"""Changes of `kafka-safe` that are refused."""


def commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it, each with its words."""
    yield name, command
    if isinstance(command, click.Group):
        for below, each in sorted(command.commands.items()):
            yield from commands(each, f"{name} {below}")


def test_help(frozen: Frozen) -> None:
    """As click prints it, without the frames that depend on the terminal."""
    pages, root = [], click.Context(main, info_name="ackloss", **main.context_settings)
    for name, command in commands(main, "ackloss"):
        command._help_option = None  # click keeps the one of a test that called a verb alone
        context = root if command is main else click.Context(command, root, name)
        formatter = click.HelpFormatter(width=100)
        formatter.write_usage(name, " ".join(command.collect_usage_pieces(context)))
        click.Command.format_help_text(command, context, formatter)
        rows = [
            row for each in command.get_params(context) if (row := each.get_help_record(context))
        ]
        formatter.write_dl(rows)
        if isinstance(command, click.Group):
            formatter.write_text(f"commands: {', '.join(sorted(command.commands))}")
        click.Command.format_epilog(command, context, formatter)
        pages.append(formatter.getvalue())
    frozen("help.txt", normalised("\n".join(pages)))


def test_the_help_itself_is_printed() -> None:
    for name, command in commands(main, "ackloss"):
        done = ackloss(*name.split()[1:], "--help")
        assert done.exit_code == 0
        words = (command.help or "").split()[:3]
        assert all(word in done.stdout for word in words), name


def test_plan_schema(frozen: Frozen) -> None:
    schema = json.loads(ackloss("plan", "schema", "--json").stdout)
    frozen("plan-schema.json", normalised(as_text(schema)))


def test_refused_changes(frozen: Frozen, tmp_path: Path) -> None:
    """At which key, and with which words."""
    refused = {}
    for change in BAD_CHANGES:
        done = ackloss("plan", "validate", "kafka-safe", "--set", change, "--json")
        error = json.loads(done.stdout).get("error", {})
        refused[change] = [done.exit_code, error.get("code"), error.get("key"), error.get("what")]
    frozen("refused-changes.json", normalised(as_text(refused), str(tmp_path)))
