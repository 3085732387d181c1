"""Commands that undo faults end as they would, whatever is pressed at the terminal meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PRESSED = """
import os, signal, threading
from harness.clusters.docker.pod import enter
from harness.machine import loop_disks
signal.signal(signal.SIGINT, lambda *_: print("pressed"))
threading.Timer(0.5, lambda: os.killpg(0, signal.SIGINT)).start()
"""


@pytest.mark.parametrize(
    "command",
    ['enter(1, ("-n",), ["iptables"], timeout_s=10).exit_code', 'loop_disks._run("nsenter") or 0'],
)
def test_ctrl_c_reaches_no_command_of_an_undo(tmp_path: Path, command: str) -> None:
    tool = tmp_path / "nsenter"
    tool.write_text("#!/bin/sh\nsleep 1.5\n")
    tool.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", f"{PRESSED}\nprint({command})"],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == ["pressed", "0"], done.stderr
