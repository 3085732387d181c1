"""Executes docs/start/notebook.ipynb and stores its outputs. With --check it only reports whether
the stored outputs are those of an execution; pictures are compared by their presence."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOK = ROOT / "docs" / "start" / "notebook.ipynb"
_TIMEOUT_S = 300
_PICTURES = ("image/png", "text/html")
"""Kinds of output of which only the presence is compared: drawn, or made from the text."""


def execute(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The notebook with the outputs of an execution, from an empty folder and with this checkout.
    Raises CellExecutionError when a cell raises."""
    copy = nbformat.from_dict(notebook)
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            copy,
            timeout=_TIMEOUT_S,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        client.execute(env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)})
    copy.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    return copy


def outputs(notebook: nbformat.NotebookNode) -> list[list[dict[str, Any]]]:
    """What each code cell has put out, comparable: without pictures."""
    return [
        [_comparable(output) for output in cell.outputs]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def _comparable(output: nbformat.NotebookNode) -> dict[str, Any]:
    data = {
        kind: None if kind in _PICTURES else content
        for kind, content in output.get("data", {}).items()
    }
    return {"type": output.output_type, "text": output.get("text"), "data": data}


def main() -> int:
    stored = nbformat.read(NOTEBOOK, as_version=4)
    executed = execute(stored)
    if "--check" not in sys.argv:
        nbformat.write(executed, NOTEBOOK)
    elif outputs(executed) != outputs(stored):
        print("docs/start/notebook.ipynb is not current; run `make docs`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
