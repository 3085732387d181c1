"""docs/start/notebook.ipynb runs, and shows what it showed when its outputs were stored."""

from __future__ import annotations

import copy
from pathlib import Path

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

from scripts.notebook import NOTEBOOK, execute, outputs

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def stored() -> nbformat.NotebookNode:
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.fixture(scope="module")
def executed(stored: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Raises when a cell raises."""
    return execute(stored)


def test_the_stored_outputs_are_those_of_an_execution(
    stored: nbformat.NotebookNode, executed: nbformat.NotebookNode
) -> None:
    assert outputs(stored) == outputs(executed), "run `make docs`"


def test_it_loses_writes_shows_frames_and_draws_one_picture(
    executed: nbformat.NotebookNode,
) -> None:
    shown = [output for cell in outputs(executed) for output in cell]
    progress, *_ = shown
    assert progress["data"] == {"text/plain": ""}, "it is gone once the run is over"
    assert shown[1]["text"].startswith("invalid: 606 of 4,000 acknowledged writes")
    assert sum("image/png" in output["data"] for output in shown) == 1
    assert sum("text/html" in output["data"] for output in shown) >= 5


def test_a_cell_that_raises_is_noticed(stored: nbformat.NotebookNode) -> None:
    broken = copy.deepcopy(stored)
    del broken.cells[2:]
    broken.cells[1].source = "import ackloss\nackloss.load_run('no such folder')"
    with pytest.raises(CellExecutionError, match="HistoryError"):
        execute(broken)


def test_outputs_that_differ_are_noticed(stored: nbformat.NotebookNode) -> None:
    changed = copy.deepcopy(stored)
    code = next(cell for cell in changed.cells if cell.cell_type == "code")
    code.outputs[1].text = code.outputs[1].text.replace("606", "607")
    assert outputs(changed) != outputs(stored)


def test_it_names_no_path_of_the_machine_on_which_it_was_executed() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    folders = (str(ROOT), str(Path.home()), "/tmp/", "/home/", "/usr/", "/var/")
    assert [folder for folder in folders if folder in text] == []
