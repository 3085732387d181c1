"""Commands that undo faults end as they would, whatever is pressed at the terminal meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PRESSED = """
import os, signal, threading
from harness.clusters.docker.cluster import enter
from harness.machine import loop_disks
signal.signal(signal.SIGINT, lambda *_: print("pressed"))
for command in (
    lambda: enter(1, ("-n",), ["iptables"], timeout_s=10).exit_code,
    lambda: loop_disks._run("nsenter") or 0,
):
    threading.Timer(0.5, lambda: os.killpg(0, signal.SIGINT)).start()
    print(command())
"""


def test_ctrl_c_reaches_no_command_of_an_undo(tmp_path: Path) -> None:
    tool = tmp_path / "nsenter"
    tool.write_text("#!/bin/sh\nsleep 1.5\n")
    tool.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", PRESSED],
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == ["pressed", "0"] * 2, done.stderr
