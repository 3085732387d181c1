"""Ctrl-C while a command still starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = """
import signal, sys
class Interrupting:
    def find_spec(self, name, *_):
        if name == {module!r}:
            signal.raise_signal(signal.SIGINT)
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a job in the background lacks
sys.meta_path.insert(0, Interrupting())
sys.argv = ["ackloss", "version"]
from harness.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["harness.cli", "rich_click", "harness.cli.verbs.check"])
def test_an_interrupt_while_the_command_line_is_imported_is_one_line(module: str) -> None:
    script = INTERRUPTED.format(module=module)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "ackloss: interrupted\n")
