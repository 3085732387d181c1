"""Sixty random histories with the answers of Jepsen's checker of its workload kafka (0.3.14).

Kinds of errors, how many there are of each, the verdict and the worst lag agree. What we call torn
is of our own; it is always lost as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.checkers.transactional_log.ops import names, said

FILE = Path(__file__).parents[2] / "histories" / "jepsen-kafka.jsonl"
CASES = [orjson.loads(line) for line in FILE.read_bytes().splitlines()]
TORN = "torn-transaction"


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["name"]))
def test_the_answer_is_jepsens(case: dict[str, Any], tmp_path: Path) -> None:
    theirs, ours = case["result"], said(tmp_path, case["history"])
    (check,) = ours["checks"]
    assert names(ours) - {TORN} == set(theirs["bad-error-types"])
    assert set(check["details"]["error_types"]) - {TORN, "G0"} == set(theirs["error-types"])
    for kind, number in theirs["counts"].items():
        assert (kind, ours["counts"][kind]) == (kind, number)
    assert ours["verdict"] == ("valid" if theirs["valid?"] else "invalid")
    if theirs["worst-realtime-lag"] is not None:
        assert round(ours["counts"]["worst_realtime_lag_s"] * 1e9) == theirs["worst-realtime-lag"]
    if TORN in names(ours):
        assert "lost-write" in names(ours)


def test_they_hold_most_kinds() -> None:
    kinds = {kind for case in CASES for kind in case["result"]["error-types"]}
    assert len(CASES) == 60
    assert kinds >= {
        *("lost-write", "unseen", "G1a", "duplicate", "inconsistent-offsets", "poll-skip"),
        *("nonmonotonic-poll", "int-poll-skip", "int-nonmonotonic-poll", "int-send-skip"),
    }
