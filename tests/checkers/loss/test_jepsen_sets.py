"""Random set histories with the answers of Jepsen's own checker: four counts agree on all of them.

`jepsen-set.jsonl`: one object a line, `name`, `history` (Jepsen's op maps) and `result`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from checkers.judging.many_runs import check_histories

ANSWERS = Path(__file__).parents[2] / "histories" / "jepsen-set.jsonl"
CASES = [orjson.loads(line) for line in ANSWERS.read_bytes().splitlines()]
SAME = {
    "attempt-count": "attempted",
    "acknowledged-count": "acknowledged",
    "lost-count": "lost",
    "unexpected-count": "unexpected",
}


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("histories")
    assert len(CASES) == 60
    files = []
    for case in CASES:
        files.append(folder / f"{case['name']}.jsonl")
        files[-1].write_bytes(b"".join(orjson.dumps(op) + b"\n" for op in case["history"]))
    return {document["run_id"]: document for document in check_histories(files)}


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_counts_agree_and_what_jepsen_calls_invalid_is_invalid(
    case: dict[str, Any], documents: dict[str, Any]
) -> None:
    document = documents[case["name"]]
    counts = document["counts"]
    ours = {theirs: counts[name] for theirs, name in SAME.items()}
    assert ours == {name: case["result"][name] for name in SAME}
    # Not the other way round: a refused add that is read is an error to us, recovered to Jepsen,
    # and where nothing was acknowledged we know nothing.
    if case["result"]["valid?"] is False or counts["failed_found"]:
        expected = "invalid"
    else:
        expected = "valid" if counts["acknowledged"] else "unknown"
    assert document["verdict"] == expected, document["reason"]
