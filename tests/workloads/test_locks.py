"""The scripts of locks and sequences."""

from __future__ import annotations

import pytest

from harness import registry
from harness.errors import PlanError
from harness.protocols import FAIL, INFO, OK, completion
from workloads.coordination import Locks, Sequence


def test_a_holder_confirms_and_gives_back() -> None:
    script = Locks(keys_count=1, confirms_count=2).script(1, 3, 1, 1)
    assert next(script)[:2] == ("acquire", 1)
    assert script.send(completion(FAIL))[:2] == ("acquire", 4), "somebody holds it"
    done = [script.send(completion(OK, result=1))[0] for _ in range(4)]
    assert done == ["confirm", "confirm", "release", "acquire"]


@pytest.mark.parametrize("ended", [completion(OK, result=0), completion(INFO), completion(FAIL)])
def test_one_who_may_have_lost_it_gives_it_back(ended: tuple[object, ...]) -> None:
    script = Locks(confirms_count=5).script(0, 3, 1, 1)
    next(script)
    assert script.send(completion(OK))[0] == "confirm"
    assert script.send(ended)[0] == "release"  # type: ignore[arg-type]


def test_one_who_may_hold_it_gives_it_back() -> None:
    script = Locks().script(0, 3, 1, 1)
    next(script)
    assert script.send(completion(INFO))[0] == "release"


@pytest.mark.parametrize("options", [{"keys_count": 0}, {"confirms_count": 0}])
def test_wrong_options_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(PlanError, match="use 1 or more"):
        registry.make("workloads", "locks", options, key="workload.options.name")


def test_a_sequence_stores_unique_values() -> None:
    script = Sequence().script(2, 3, 1, 1)
    assert [next(script)[:2], *(script.send(completion(OK))[:2] for _ in range(2))] == [
        ("next", 2),
        ("next", 5),
        ("next", 8),
    ]
