"""Only a result.json of the run itself, as a check writes it, counts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from analysis.campaign import campaign_document, run_rows
from tests.fixtures.campaign_folder import ON, build
from tests.fixtures.result_documents import run


@pytest.mark.parametrize(
    ("edited", "words"),
    [
        ({"run_id": "another"}, "is of another run, 'another'"),
        ({"eligible": "false"}, "eligible is 'false'"),
        ({"doubts": "starved"}, "doubts is 'starved'"),
        ({"counts": {"lost": "3", "deleted": 0, "acknowledged": 9}}, "counts.lost is "),
        ({"counts": {"lost": -3, "deleted": 0, "acknowledged": 9}}, "counts.lost is "),
    ],
)
def test_a_result_of_another_run_or_a_malformed_one_does_not_count(
    edited: dict[str, Any], words: str, tmp_path: Path
) -> None:
    folder = build(tmp_path / "c", {ON: [run()] * 3})
    first = min(folder.runs.iterdir()) / "result.json"
    first.write_bytes(orjson.dumps({**orjson.loads(first.read_bytes()), **edited}))
    cell = next(cell for cell in campaign_document(folder).cells if cell.name == ON)
    assert (cell.verdicts["none"], cell.verdicts["harness_failure"]) == (2, 1)
    assert cell.lossy_share.worst_case.estimate == pytest.approx(1 / 3)
    (row, *_) = run_rows(folder)
    assert words in row["reason"]
    assert str(first) in row["reason"]
