"""`ackloss client try`: a client that keeps to the protocol passes, and each violation is named."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.fixtures.command_line import ackloss

CLIENT = Path(__file__).parents[2] / "fixtures/clients/any_client.py"
READY = "answers the setup line when it is connected"
ANSWERS = "answers each of many operations in flight once, in the documented form"
CLOSE = "exits with code 0 within 5 s of the close line"

pytestmark = pytest.mark.real_time


def tried(folder: Path, *misdeed: str, model: str = "log") -> tuple[int, dict[str, str | None]]:
    command = f"{sys.executable} {CLIENT} {folder / 'values'} {' '.join(misdeed)}"
    done = ackloss("client", "try", command, "--within", 1, "--model", model, "--json")
    return done.exit_code, json.loads(done.stdout)["requirements"]


def test_a_client_that_keeps_to_the_protocol_passes(tmp_path: Path) -> None:
    code, met = tried(tmp_path)
    assert (code, len(met), set(met.values())) == (0, 6, {None})


@pytest.mark.parametrize(
    ("misdeed", "requirement", "words"),
    [
        ("failed@0", READY, "no server answered"),
        ("babbles@0", READY, "it writes a line that is not JSON"),
        ("malformed@3", ANSWERS, "it writes a line that is not JSON"),
        ("twice@5", ANSWERS, "it answers operation 5 a second time"),
        ("field@2", ANSWERS, "has no field 'postion'"),
        ("exit@7", ANSWERS, "it ended with exit code 3"),
        ("block@50", ANSWERS, "operation 50 (append) has no answer after 1 s"),
        ("bad-exit@0", CLOSE, "it ended with exit code 5"),
    ],
)
def test_a_violation_is_named_at_its_requirement(
    misdeed: str, requirement: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine may take longer to end a process that has closed its stdout.
    monkeypatch.setattr("harness.run.exec_client._GRACE_S", 10.0)
    code, met = tried(tmp_path, misdeed)
    assert code == 1
    assert words in str(met[requirement])
    assert [name for name, violation in met.items() if violation] == [requirement]


LINES = """
import json, sys
sys.stdin.readline()
print('{"type": "ready", "name": "lines", "version": "1"}', flush=True)
for line in sys.stdin:
    op = json.loads(line)
    if op["type"] == "close":
        break
    more = {"result": []} if op["f"] == "read" and sys.argv[1] == "right" else {}
    print(json.dumps({"type": "ok", "id": op["id"], **more}), flush=True)
"""


@pytest.mark.parametrize(("how", "violation"), [("right", None), ("wrong", "needs a 'result'")])
def test_a_read_needs_a_result(how: str, violation: str | None, tmp_path: Path) -> None:
    (tmp_path / "client.py").write_text(LINES)
    command = f"{sys.executable} {tmp_path / 'client.py'} {how}"
    done = ackloss("client", "try", command, "--model", "set", "--json")
    found = json.loads(done.stdout)["requirements"][ANSWERS]
    assert (violation or "None") in str(found)


def test_a_client_that_stays_when_ackloss_is_gone_is_named(tmp_path: Path) -> None:
    command = f"{sys.executable} {tmp_path / 'client.py'} right"
    (tmp_path / "client.py").write_text(
        LINES.replace("for line", "op = {'type': None}\nfor line")
        + "\nif op['type'] != 'close': __import__('time').sleep(60)"
    )
    done = ackloss("client", "try", command, "--json")
    assert done.exit_code == 1
    found = json.loads(done.stdout)["requirements"]
    assert found["exits when stdin ends without a close line"] == "it still runs 5 s later"
