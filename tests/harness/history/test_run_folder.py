"""What a run folder says by its place alone."""

from __future__ import annotations

from pathlib import Path

from harness.history.run_folder import RunDir, new_run_id


def test_a_cell_has_the_id_of_its_run_and_its_name() -> None:
    assert RunDir(Path("out/20260102-030405-abc123/cells/safe")).run_id == (
        "20260102-030405-abc123.safe"
    )


def test_a_run_in_a_folder_named_cells_is_no_cell() -> None:
    run_id = new_run_id()
    assert RunDir(Path("somewhere/cells") / run_id).run_id == run_id
