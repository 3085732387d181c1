"""`ackloss --help` is fast: it imports none of the heavy libraries."""

from __future__ import annotations

import subprocess
import sys

HEAVY = {"pyspark", "matplotlib", "jinja2", "docker", "paramiko", "confluent_kafka", "kafka"}
SLOW = {"pydantic", "numpy", "pyarrow", "pandas"}
"""What takes as long to import as all that `--help` needs, and more."""

PROGRAM = """
import sys
from ackloss.cli import main
try:
    main(["--help"])
except SystemExit as ended:
    assert ended.code == 0
print("IMPORTED", *sorted(name for name in sys.modules if "." not in name))
"""


def test_help_names_every_verb_and_exit_code_and_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    printed, _, imported = done.stdout.partition("IMPORTED")
    assert (HEAVY | SLOW).isdisjoint(imported.split())
    for verb in ("run", "check", "report", "compare", "ls", "show", "clean", "doctor", "prepare"):
        assert verb in printed
    for verb in ("plan", "list", "version"):
        assert verb in printed
    assert "130 interrupted" in printed
