"""What is said when the Python of Spark's workers cannot judge: by Spark itself, whose workers run
another Python than this one and get the code that is sent to a cluster.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark import SparkContext

from checkers.judging.many_runs import check_runs
from checkers.judging.spark import NEEDS, code_zip
from harness.errors import EnvironmentFailure
from harness.history.run_folder import RunDir
from tests.fixtures.hand_made import Made, R, W
from tests.fixtures.spark_cluster import bare_python

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OLDER = (
    "import sys, collections; "
    'Version = collections.namedtuple("Version", "major minor micro releaselevel serial"); '
    'sys.version_info = Version(3, 10, 18, "final", 0)\n'
)
"""Executed by a Python when it starts: it reports another version from then on."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    made = Made(writes=[W(1), W(2)], reads=[R(2)])
    return made.build(tmp_path_factory.mktemp("runs"), "one")


def judged_by(python: Path, run: RunDir, spark: SparkContext, patch: pytest.MonkeyPatch) -> None:
    """Have workers that run this Python judge the run."""
    patch.setattr(spark, "pythonExec", str(python))
    patch.setitem(spark.environment, "PYTHONPATH", str(code_zip(run.path.parent)))
    check_runs([run], master=spark.master)


def test_a_python_without_pyarrow_is_named(
    run: RunDir, spark: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = bare_python(tmp_path / "lacking", without="pyarrow")
    with pytest.raises(EnvironmentFailure) as caught:
        judged_by(python, run, spark, monkeypatch)
    assert caught.value.what == "the Python of an executor lacks pyarrow"
    assert ", ".join(NEEDS) in (caught.value.hint or "")


@pytest.mark.full
def test_the_version_that_an_executor_has_is_named(
    run: RunDir, spark: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = bare_python(tmp_path / "older")
    (packages,) = (tmp_path / "older").glob("lib/python*/site-packages")
    (packages / "older.pth").write_text(OLDER)
    with pytest.raises(EnvironmentFailure, match=r"an executor has Python 3\.10, this process 3\."):
        judged_by(python, run, spark, monkeypatch)


@pytest.mark.full
def test_a_python_that_does_not_run_sparks_worker_says_why(
    run: RunDir, spark: SparkContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text(
        "#!/bin/sh\necho \"TypeError: 'type' object is not subscriptable\" >&2\nexit 1\n"
    )
    python.chmod(0o755)
    with pytest.raises(EnvironmentFailure, match="does not run Spark's worker: TypeError: 'type'"):
        judged_by(python, run, spark, monkeypatch)


def test_a_python_that_is_not_there_is_named(
    run: RunDir, spark: SparkContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EnvironmentFailure, match="cannot start its Python, '/no/python'"):
        judged_by(Path("/no/python"), run, spark, monkeypatch)
