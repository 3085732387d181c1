"""Which checkers judge histories from outside: each does, or is refused before anything is read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from checkers.judging.one_run import checker_of, judge_history
from checkers.judging.outside import MODELS_OUTSIDE
from harness import registry
from harness.errors import PlanError
from harness.models import MODELS
from tests.fixtures.command_line import ackloss

WRITES = {
    "register": ("write", 1, "read", 1),
    "queue": ("enqueue", 1, "drain", [1]),
    "kafka": ("send", [["send", 0, 1]], "poll", [["poll", {"0": [[0, 1]]}]]),
    "list-append": ("txn", [["append", 0, 1]], "txn", [["r", 0, [1]]]),
    "rw-register": ("txn", [["w", 0, 1]], "txn", [["r", 0, 1]]),
}
"""What is written and what is read, where they are not as of a set."""

REFUSED = (
    "cannot judge a history from outside, only runs of ackloss; use loss, register, set, queue, "
    "kafka, list-append, rw-register"
)


def history(folder: Path, checker: str = "") -> Path:
    """One write, and a read of it."""
    write, value, read, result = WRITES.get(checker, ("add", 1, "read", [1]))
    ops = [(write, kind, value) for kind in ("invoke", "ok")]
    ops += [(read, "invoke", None), (read, "ok", result)]
    lines = [{"process": 0, "f": f, "type": kind, "value": value} for f, kind, value in ops]
    file = folder / "ops.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


@pytest.mark.parametrize("name", registry.usable("checkers"))
def test_every_checker_judges_a_history_from_outside_or_is_refused(
    name: str, tmp_path: Path
) -> None:
    file, checks = history(tmp_path, name), {name: checker_of(name, {})}
    if not checks[name].models & set(MODELS_OUTSIDE):
        with pytest.raises(PlanError) as refused:
            judge_history(file, checks)
        assert (refused.value.key, refused.value.exit_code) == ("--checker", 4)
        assert str(refused.value) == f"--checker: {name} {REFUSED}"
        return
    document = judge_history(file, checks)
    assert " raised " not in document["reason"]
    assert [check["name"] for check in document["checks"]] == [name]


def test_the_checkers_that_are_named_judge_such_histories() -> None:
    assert [MODELS[model].check for model in MODELS_OUTSIDE] == REFUSED.split("use ")[1].split(", ")


@pytest.mark.parametrize("checker", ["locks", "delivery", "watches", "sequence"])
def test_the_command_line_refuses_the_others(checker: str, tmp_path: Path) -> None:
    done = ackloss("check", "--history", history(tmp_path), "--checker", checker)
    assert done.exit_code == 4
    assert done.stderr == f"ackloss: --checker: {checker} {REFUSED}\n"
