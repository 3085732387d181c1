"""EDN says what JSON lines say, to every checker of histories from outside; folders of Jepsen's
store, and what is cut off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import edn_format
import orjson
import pytest

from checkers.judging.many_runs import check_histories
from checkers.judging.one_run import checker_of, judge_history
from harness.errors import HistoryError
from tests.fixtures.command_line import ackloss, ackloss_json

pytestmark = pytest.mark.slow

KEYWORDS = frozenset({"type", "f"})
MICRO = frozenset({"send", "poll"})


def as_edn(value: Any, key: str = "") -> Any:
    """As Jepsen has it: names are keywords, and keys of logs integers."""
    if isinstance(value, dict):
        return {
            int(k) if k.isdigit() else edn_format.Keyword(k): as_edn(v, k) for k, v in value.items()
        }
    if isinstance(value, list):
        return [as_edn(each) for each in value]
    return edn_format.Keyword(value) if key in KEYWORDS or value in MICRO else value


def op(process: int, f: str, value: Any, answer: Any = None) -> list[dict[str, Any]]:
    """An operation that is ok."""
    one = {"process": process, "f": f}
    done = value if answer is None else answer
    return [{**one, "type": "invoke", "value": value}, {**one, "type": "ok", "value": done}]


HISTORIES = {
    "loss": [*op(0, "add", 1), *op(0, "add", 2), *op(1, "read", None, [2, 9])],
    "set": [*op(0, "add", 1), *op(0, "add", 2), *op(1, "read", None, [2, 9])],
    "register": [*op(0, "write", 1), *op(0, "cas", [1, 2]), *op(1, "read", None, 1)],
    "kafka": [
        *op(0, "txn", [["send", 1, 5]], [["send", 1, [0, 5]]]),
        *op(0, "txn", [["send", 1, 6]], [["send", 1, [1, 6]]]),
        *op(1, "poll", [["poll"]], [["poll", {"1": [[1, 6]]}]]),
        {"process": "nemesis", "type": "info", "f": "start", "value": None},
    ],
}


def written(folder: Path, checker: str) -> tuple[Path, Path]:
    """The history of a checker as JSON lines and as EDN."""
    folder.mkdir(parents=True, exist_ok=True)
    ops = [{**each, "index": n, "time": n * 10} for n, each in enumerate(HISTORIES[checker])]
    lines, edn = folder / "history.jsonl", folder / "history.edn"
    lines.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in ops))
    edn.write_text("".join(edn_format.dumps(as_edn(each)) + "\n" for each in ops))
    return lines, edn


@pytest.mark.parametrize("checker", HISTORIES)
def test_edn_says_what_json_says(checker: str, tmp_path: Path) -> None:
    lines, edn = written(tmp_path / "queue" / "20240101T00Z", checker)
    checks = {checker: checker_of(checker, {})}
    ours, same = judge_history(lines, checks), judge_history(edn, checks)
    assert ours["verdict"] == "invalid"
    assert (ours.pop("run_id"), same.pop("run_id")) == ("history", "queue/20240101T00Z")
    for document in (ours, same):
        document["timings"].pop("check_s")
    assert same == ours


@pytest.mark.parametrize("checker", HISTORIES)
def test_a_file_that_is_cut_off_is_one_sentence_with_file_and_key(
    checker: str, tmp_path: Path
) -> None:
    _, edn = written(tmp_path, checker)
    text = edn.read_text()
    edn.write_text(text[: text.rindex(":value") + 8])
    with pytest.raises(HistoryError, match="is cut off") as caught:
        judge_history(edn, {checker: checker_of(checker, {})})
    number = len(text.splitlines())
    assert (caught.value.file, caught.value.exit_code) == (f"{edn}:{number}", 4)
    assert caught.value.key == "value"


def test_a_folder_without_a_history_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "history.txt").touch()
    done = ackloss("check", "--history", tmp_path, "--checker", "kafka", "--json")
    assert done.exit_code == 4
    error = json.loads(done.stdout)["error"]
    assert (error["code"], error["file"], error["key"]) == (
        "bad-history",
        str(tmp_path),
        "history.edn",
    )
    assert "history.txt cannot be read" in error["what"]
    with pytest.raises(HistoryError, match=r"holds no history\.edn"):
        check_histories([tmp_path], checker="kafka")


@pytest.mark.full
def test_the_command_line_reads_a_store(tmp_path: Path) -> None:
    for run in ("queue/20240101T00Z", "queue/20240102T00Z"):
        written(tmp_path / "store" / run, "kafka")
    (tmp_path / "store/queue/latest").symlink_to("20240102T00Z")
    words = ("check", "--checker", "kafka", "--history")
    both = ackloss_json(*words, tmp_path / "store")["results"]
    assert [each["run_id"] for each in both] == ["queue/20240101T00Z", "queue/20240102T00Z"]
    one = ackloss_json(*words, tmp_path / "store/queue/latest")
    assert one["counter_examples"] == ["lost-write", "unseen"]
    file = tmp_path / "store/queue/latest/history.edn"
    file.write_text(file.read_text()[:-5])
    done = ackloss(*words, tmp_path / "store", "--json")
    assert done.exit_code == 4
    assert json.loads(done.stdout)["run_id"] == "queue/20240101T00Z"
    assert "history.edn:7" in done.stderr
    assert "is cut off" in done.stderr
