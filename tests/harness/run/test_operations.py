"""A workload that yields what its model does not have is named, and so is the target of a client
that completes an operation otherwise than it should: nothing is judged of the system."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness.errors import HarnessFailure
from harness.protocols import NULL, OK, Completion, Invoke, completion, invoke
from tests.fixtures.virtual import MS, VirtualClient, run_load
from workloads.append import Append

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Odd:
    """Appends as it should, and does something else at the `after`th operation of process 1."""

    op: object
    after: int
    plugin: ClassVar[str] = "odd"
    model: str = "log"

    def script(self, process: int, processes: int, partitions: int, seed: int) -> Iterator[Any]:
        for number in range(100):
            odd = process == 1 and number == self.after
            yield self.op if odd else invoke("append", process + number * processes, 0)


def run(folder: Path, workload: Any, client: VirtualClient | None = None) -> int:
    load = {"processes": 2, "rate_per_s": 100, "duration_s": 1}
    return run_load(folder, client or VirtualClient(), workload=workload, **load)[0].attempted


@pytest.mark.parametrize(
    ("op", "why"),
    [
        (None, "should be a valid tuple"),
        (("append", 7), "partition Field required"),
        (invoke("apend", 999, 0), "the model 'log' has the functions append"),
        (invoke(["append"], 999, 0), "f should be a valid string"),  # type: ignore[arg-type]
        (invoke("append", 999), "in the partition none: the partitions are 0 to 2"),
        (invoke("append", 999, 3), "in the partition 3: the partitions are 0 to 2"),
        (invoke("append", None, 0), "of the value none in the partition 0: a write has a value"),
        (("append", 999, None, None, NULL), "partition should be a valid integer"),
        (invoke("append", "v", 0), "value should be a valid integer"),  # type: ignore[arg-type]
        (invoke("append", 2**63, 0), "value should be less than 9223372036854775808"),
        (invoke("append", -1, 0), "unique in the run, of 0 to 999999999999999999"),
        (invoke("append", 10**18, 0), "unique in the run, of 0 to 999999999999999999"),
        (invoke("append", 999, 0, key=3), "key should be a valid string"),  # type: ignore[arg-type]
    ],
)
def test_an_operation_that_cannot_be_is_refused_with_its_workload(
    tmp_path: Path, op: object, why: str
) -> None:
    for after in (0, 7):
        folder = tmp_path / str(after)
        folder.mkdir()
        with pytest.raises(HarnessFailure) as refused:
            run(folder, Odd(op, after))
        assert refused.value.what.startswith("the workload 'append': a script ")
        assert why in refused.value.what


@pytest.mark.parametrize(
    "op",
    [invoke("append", 999, 2), invoke("append", 0, 0, key="k"), invoke("append", 10**18 - 1, 0)],
)
def test_an_operation_of_the_model_is_not(tmp_path: Path, op: Invoke) -> None:
    assert run(tmp_path, Odd(op, 7)) == 100


@pytest.mark.parametrize(
    ("model", "op"), [("register", invoke("read", key="k")), ("set", invoke("add", 3))]
)
def test_other_models_need_no_partition(tmp_path: Path, model: str, op: Invoke) -> None:
    class Other(Odd):
        def script(self, process: int, processes: int, partitions: int, seed: int) -> Iterator[Any]:
            yield op

    assert run(tmp_path, Other(op, 0, model=model)) == 2


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda *_: [invoke("append", 1, 0)], "'list' object is not an iterator"),
        (lambda *_: None, "'NoneType' object is not an iterator"),
        (lambda *_: (op for op in ()), "yields at least one `invoke(...)`: StopIteration()"),
    ],
)
def test_a_script_that_is_none_is_refused(
    tmp_path: Path, make: Callable[..., Any], why: str
) -> None:
    class Other(Odd):
        def script(self, process: int, processes: int, partitions: int, seed: int) -> Any:
            return make()

    with pytest.raises(HarnessFailure) as refused:
        run(tmp_path, Other(None, 0))
    assert refused.value.what.startswith("the workload 'append': ")
    assert why in refused.value.what


def test_what_a_script_raises_is_its_own(tmp_path: Path) -> None:
    class Other(Odd):
        def script(self, process: int, processes: int, partitions: int, seed: int) -> Iterator[Any]:
            ended = yield invoke("append", process, 0)
            ended["type"]

    with pytest.raises(TypeError, match="tuple indices"):
        run(tmp_path, Other(None, 0))


@pytest.mark.parametrize(
    ("ended", "why"),
    [
        (None, "should be a valid tuple"),
        ((OK,), "offset Field required"),
        (completion("okay"), "type should be 'ok', 'fail' or 'info'"),
        (completion(OK, offset="7"), "offset should be a valid integer"),  # type: ignore[arg-type]
        (completion(OK, node=7), "node should be a valid string"),  # type: ignore[arg-type]
        (completion(OK, error=ValueError("x")), "error should be a valid string"),  # type: ignore[arg-type]
        (completion(OK, result="x"), "should be a valid integer"),  # type: ignore[arg-type]
    ],
)
def test_a_completion_that_is_none_is_refused_with_its_target(
    tmp_path: Path, ended: Any, why: str
) -> None:
    def answers(now_ns: int, _: Invoke) -> tuple[int, Completion]:
        return now_ns + 5 * MS, ended

    with pytest.raises(HarnessFailure) as refused:
        run(tmp_path, Append(), VirtualClient(answers))
    assert refused.value.what.startswith("a client of the target 'kafka' returns ")
    assert why in refused.value.what
