"""What a host does by itself, on a host whose tools do nothing but note and refuse."""

from __future__ import annotations

import os
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.clusters.ssh import scripts
from harness.protocols import NodeSpec

TOOLS = {
    "iptables": """\
[ ! -e {root}/locked ] || { echo 'Another app is currently holding the xtables lock' >&2; exit 4; }
case "$*" in
*-S*) cat {root}/rules ;;
*-F*) : >{root}/rules ;;
*) exit 1 ;;
esac
""",
    "tc": """\
case "$*" in
*show*) [ ! -e {root}/unreadable ] || exit 1; cat {root}/queues ;;
*) [ ! -e {root}/busy ] || exit 2; : >{root}/queues ;;
esac
""",
}


@dataclass(frozen=True)
class HostOfRun:
    """A host that the run r1 has claimed, below a folder."""

    root: Path

    @property
    def claim(self) -> Path:
        return self.root / "claim"

    def begin(self, verb: str, lease_s: int = 1) -> subprocess.Popen[str]:
        text = scripts.HOST.replace("/run/ackloss.", f"{self.root}/run.")
        for name, value in (
            ("CLAIM", str(self.claim)),
            ("RUNS", f"{self.root}/runs"),
            ("UPLOADS", f"{self.root}/uploads"),
            ("QUEUES", scripts.QUEUES),
            ("TAKEN", "17"),
            ("LEASE", str(lease_s)),
        ):
            text = text.replace(f"@{name}@", value)
        return subprocess.Popen(
            ["sh", "-c", text, "host.sh", verb, "r1"],
            env={"PATH": f"{self.root}/bin:/usr/bin:/bin"},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def do(self, verb: str) -> tuple[int, list[str]]:
        process = self.begin(verb)
        output, _ = process.communicate(timeout=30)
        return process.returncode, output.splitlines()


@pytest.fixture
def host(tmp_path: Path) -> HostOfRun:
    for name in ("claim", "bin", "uploads"):
        (tmp_path / name).mkdir()
    for name, text in TOOLS.items():
        tool = tmp_path / "bin" / name
        tool.write_text("#!/bin/sh\n" + text.replace("{root}", str(tmp_path)))
        tool.chmod(0o755)
    for name, text in {
        "claim/run": "r1\n",
        "claim/queues": "",
        "rules": "-A INPUT -j ACKLOSS-IN\n",
        "queues": "qdisc tbf 5a01: dev eth0 root\n",
    }.items():
        (tmp_path / name).write_text(text)
    return HostOfRun(tmp_path)


LOCKED = "still in force: the rules cannot be read: Another app is currently holding the xtables"


@pytest.mark.parametrize(
    ("trouble", "sentence"),
    [
        ("locked", LOCKED),
        ("busy", "still in force: queue at eth0 5a01:"),
        ("unreadable", "still in force: the queues cannot be read"),
    ],
)
def test_a_host_keeps_the_claim_while_a_fault_may_be_in_force(
    host: HostOfRun, trouble: str, sentence: str
) -> None:
    (host.root / trouble).touch()
    code, lines = host.do("down")
    assert (code, [each for each in lines if each.startswith(sentence)]) == (1, lines[-1:])
    assert host.do("list") == (0, ["r1 dead"])
    (host.root / trouble).unlink()
    code, lines = host.do("down")
    assert (code, lines[-1]) == (0, f"claim {host.claim}")
    assert (host.root / "rules").read_text() + (host.root / "queues").read_text() == ""


def test_the_rules_of_others_are_not_ours(host: HostOfRun) -> None:
    (host.root / "rules").write_text("-A INPUT -j DOCKER\n")
    assert host.do("down")[0] == 0


def test_a_host_without_the_tools_has_no_faults_of_ours(host: HostOfRun) -> None:
    (host.root / "bin" / "iptables").unlink()
    (host.root / "bin" / "tc").unlink()
    assert host.do("down")[0] == 0


def test_a_host_whose_harness_is_gone_tries_again(host: HostOfRun) -> None:
    (host.root / "locked").touch()
    watch = host.begin("watch")
    try:
        time.sleep(3)
        assert watch.poll() is None
        assert host.do("list") == (0, ["r1 dead"]), "`clean` may remove it, too"
        (host.root / "locked").unlink()
        watch.communicate(timeout=30)
    finally:
        watch.kill()
    assert not host.claim.exists()
    assert (host.root / "rules").read_text() == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give up")
@pytest.mark.parametrize(("changes_user", "kept"), [(False, ()), (True, (0, 6, 7))])
def test_a_process_keeps_what_it_needs_to_change_its_user_and_no_more(
    changes_user: bool, kept: tuple[int, ...]
) -> None:
    """CAP_CHOWN is 0, CAP_SETGID 6 and CAP_SETUID 7."""
    spec = NodeSpec(name="n1", roles=frozenset(), argv=("sh",), changes_user=changes_user)
    command = ["setpriv", *scripts.rights(spec.capabilities).split(), "cat", "/proc/self/status"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    status = dict(line.split(":", 1) for line in done.stdout.splitlines())
    for each in ("CapBnd", "CapPrm", "CapEff"):
        assert int(status[each], 16) == sum(1 << bit for bit in kept)
