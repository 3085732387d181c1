"""What a host has is asked of the host, whatever it is called."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from harness.clusters.ssh.equipment import lacking


class ThisMachine:
    """A host whose commands run here."""

    def admin(self, argv: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, capture_output=True, text=True, check=True)

    def must(self, done: subprocess.CompletedProcess[str]) -> str:
        return done.stdout


@pytest.mark.parametrize(("status", "lacks"), [("installed", []), ("config-files", ["galera-4"])])
def test_what_a_host_lacks_are_programs_and_packages_that_are_not_installed(
    status: str, lacks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = tmp_path / "dpkg-query"
    listed.write_text(
        "#!/bin/sh\n"
        f"[ $3 = galera-4 ] && printf {status} && exit\n"
        "echo no packages found matching $3 >&2; exit 1\n"
    )
    listed.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    host: Any = ThisMachine()
    assert lacking(host, ["sh", "galera-4", "no-such-thing"]) == [*lacks, "no-such-thing"]
