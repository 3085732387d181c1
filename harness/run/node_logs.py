"""The logs of nodes: how they are got, and what they report about trouble, in one sentence.

No verdict depends on them, so what cannot be had of them is reported and fails no run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

from harness import failures
from harness.errors import HarnessFailure
from harness.protocols import HasLogs, Node, RunCluster

_TROUBLE: Final = re.compile(r"ERROR|FATAL|Exception|rror:")
_FRAME: Final = re.compile(r"\s*(at |\.\.\. \d+ more)")
_LONGEST: Final = 300


def logs_of(node: Node, target: object, cluster: RunCluster) -> tuple[dict[str, bytes], list[str]]:
    """A node's logs by the names of files, with what its process printed, and a sentence for each
    of the two that could not be had, whatever was raised."""
    logs, missing = dict[str, bytes](), list[str]()
    sources: list[Callable[[], Mapping[str, bytes]]] = [partial(_printed, node, cluster)]
    if isinstance(target, HasLogs):
        sources.insert(0, partial(target.logs, node))
    for source in sources:
        try:
            logs |= _by_file(source())
        except Exception as error:
            missing.append(f"not all logs of {node.name} were kept: {failures.reason(error)}")
    return logs, missing


def _by_file(given: object) -> dict[str, bytes]:
    """Logs by the last part of their name. Raises HarnessFailure for what no target may return."""
    if not isinstance(given, Mapping):
        raise HarnessFailure(f"logs() returns {given!r:.60}, not bytes by the names of files")
    for name, log in given.items():
        if not isinstance(log, bytes):
            raise HarnessFailure(f"logs() returns {name!r} as {log!r:.60}, not as bytes")
    return {Path(name).name: log for name, log in given.items()}


def _printed(node: Node, cluster: RunCluster) -> dict[str, bytes]:
    content = cluster.output(node)
    return {} if content is None else {"console.log": content}


def last_words(nodes: Path) -> str:
    """The last lines that report trouble in `NODE/*.log`: two a log, four in all; frames of Java's
    stack traces do not help a reader."""
    found: list[str] = []
    for path in sorted(nodes.glob("*/*.log")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        trouble = [line for line in lines if _TROUBLE.search(line) and not _FRAME.match(line)]
        found += [f"{path.parent.name}: {line.strip()[:_LONGEST]}" for line in trouble[-2:]]
    return " | ".join(found[:4]) or "no error in it"
