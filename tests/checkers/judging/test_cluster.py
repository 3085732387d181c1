"""What is asked of a Spark master before and while it judges, and what it says in one sentence."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from py4j.protocol import Py4JError

from checkers.judging.spark import (
    NEEDS,
    failures_in_words,
    is_local,
    on_loopback,
    require_answer,
    unfit,
    wait_for_executor,
)
from harness.errors import EnvironmentFailure


def test_only_this_machines_own_workers_share_its_files() -> None:
    assert all(map(is_local, ("local", "local[*]", "local[4,2]")))
    masters = ("local-cluster[2,1,1024]", "spark://a:7077", "yarn", "k8s://https://a:6443")
    assert not any(map(is_local, masters))


def test_a_driver_is_on_loopback_where_its_master_is() -> None:
    assert all(map(on_loopback, ("local[2]", "spark://127.0.0.1:7077", "spark://localhost:1")))
    masters = ("spark://a:7077", "spark://127.0.0.1:7077,a:7077", "yarn", "spark://127.0.0.1.a:1")
    assert not any(map(on_loopback, masters))


def test_one_of_several_masters_must_answer() -> None:
    with socket.create_server(("127.0.0.1", 0)) as master:
        require_answer(f"spark://127.0.0.1:1,127.0.0.1:{master.getsockname()[1]}")
    require_answer("yarn")
    with pytest.raises(EnvironmentFailure, match="the Spark master does not answer"):
        require_answer("spark://127.0.0.1:1,127.0.0.1:2")


class Spark:
    """A SparkContext with so many executors, as far as it is looked at."""

    master = "spark://a:7077"

    def __init__(self, executors: int) -> None:
        self.entries = executors + 1

    @property
    def _jsc(self) -> Any:
        return self

    def sc(self) -> Spark:
        return self

    def getExecutorMemoryStatus(self) -> Spark:
        return self

    def size(self) -> int:
        return self.entries


def test_a_master_without_free_workers_is_refused_after_a_while() -> None:
    wait_for_executor(Spark(1), 0)
    with pytest.raises(EnvironmentFailure, match=r"gave no executor within 0\.2 s"):
        wait_for_executor(Spark(0), 0.2)


@pytest.mark.parametrize(
    ("sentence", "what"),
    [
        (
            "ModuleNotFoundError: No module named 'pyarrow.parquet'",
            "the Python of an executor lacks pyarrow",
        ),
        (
            'java.io.IOException: Cannot run program "python9": error=2, No such file',
            "an executor cannot start its Python, 'python9'",
        ),
        (
            "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in "
            "driver: 3.11, PySpark cannot run with different minor versions. Driver stacktrace: "
            "spark-core_2.13-4.3.0.jar\\n different version: 3.9 than that in driver: 3.11",
            "an executor has Python 3.9, this process 3.11",
        ),
        (
            "Error from python worker:\n  Traceback (most recent call last):\n"
            "  TypeError: 'type' object is not subscriptable\nPYTHONPATH was:\n  /a/pyspark.zip\n",
            "the Python of an executor does not run Spark's worker: "
            "TypeError: 'type' object is not subscriptable",
        ),
    ],
)
def test_what_an_executor_lacks_is_one_sentence(sentence: str, what: str) -> None:
    error = unfit(sentence)
    assert error is not None
    assert error.what == what
    with pytest.raises(EnvironmentFailure), failures_in_words():
        raise Py4JError(sentence)


def test_the_version_that_an_executor_needs_is_the_one_that_runs_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("checkers.judging.spark.get_python_version", lambda: "3.13")
    error = unfit("ModuleNotFoundError: No module named 'orjson'")
    assert error is not None
    assert (error.hint or "").startswith(f"an executor needs Python 3.13 and {', '.join(NEEDS)}")


def test_what_is_not_for_want_of_something_is_no_such_sentence() -> None:
    assert unfit("ValueError: no such thing") is None
