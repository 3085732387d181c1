"""Files of runs that were recorded before a column was added are read; others lack it wrongly."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from harness.errors import HistoryError
from harness.history import ADDED, ENDS
from harness.history.manifest import write_manifest
from harness.history.rows import facts_of
from harness.history.run_folder import RunDir
from tests.fixtures.hand_made import E, Made, R, W

STORED = Path(__file__).parents[1] / "histories" / "runs"


def test_a_stored_run_of_an_earlier_version_has_no_such_column() -> None:
    stored = RunDir(STORED / "unclean-election-loses")
    assert "error" not in pq.read_schema(stored.ends).names
    assert all(end.complete for end in facts_of(stored).ends)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("name", ENDS.names)
def test_only_columns_that_were_added_may_lack(name: str, complete: bool, tmp_path: Path) -> None:
    ends = [E(complete=complete)]
    rundir = Made(writes=[W(1)], reads=[R(1)], ends=ends).build(tmp_path, "r")
    pq.write_table(pq.read_table(rundir.ends).drop_columns([name]), rundir.ends)
    write_manifest(rundir, "r")
    if (rundir.ends.name, name) in ADDED:
        assert facts_of(rundir).ends[0].complete == complete
        return
    with pytest.raises(HistoryError, match="lacks a column") as refused:
        facts_of(rundir)
    assert refused.value.key == name
