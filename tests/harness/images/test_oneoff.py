"""One command in a throw-away container."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.clusters.cleaning import clean_all
from harness.images.building import infra_image
from harness.images.daemon import connect, one_off
from harness.images.recipe import FILES

pytestmark = pytest.mark.docker


def test_files_are_copied_in_and_out_and_the_container_is_removed() -> None:
    argv = ["sh", "-c", f"tr a-z A-Z < {FILES}/deep/in > {FILES}/out; echo printed; exit 3"]
    with one_off(infra_image().id, argv, files={"deep/in": b"text"}) as command:
        assert command.wait(limit_s=30) == 3
        assert command.read(f"{FILES}/out") == b"TEXT"
        assert command.read(f"{FILES}/absent") is None
        assert command.output() == "printed\n"
        assert not command.running()
    here = connect().api.containers(all=True, filters={"id": command.container})
    assert here == []


def test_the_only_network_is_loopback(tmp_path: Path) -> None:
    (tmp_path / "mounted").write_text("there")
    mounts = {tmp_path / "mounted": "/opt/mounted"}
    with one_off(infra_image().id, ["sleep", "60"], mounts=mounts) as command:
        code, links = command.run(["ls", "/sys/class/net"])
        assert (code, links.split()) == (0, ["lo"])
        assert command.run(["cat", "/opt/mounted"]) == (0, "there")
        assert command.run(["touch", "/opt/mounted"])[0] != 0


def test_a_command_that_takes_too_long_raises() -> None:
    with (
        pytest.raises(TimeoutError, match="did not finish within 1 s"),
        one_off(infra_image().id, ["sleep", "60"]) as command,
    ):
        command.wait(limit_s=1)


def test_what_a_killed_process_leaves_is_found_by_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACKLOSS_STATE", str(tmp_path))
    script = (
        "import os, signal\n"
        "from harness.images.daemon import one_off\n"
        f"with one_off({infra_image().id!r}, ['sleep', '600']) as command:\n"
        "    print(command.container, flush=True)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    container = killed.stdout.strip()
    api = connect().api
    name = api.inspect_container(container)["Name"].lstrip("/")
    assert f"container {name}" in clean_all(dry_run=False, kept=False).removed
    assert api.containers(all=True, filters={"id": container}) == []
