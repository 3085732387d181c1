"""Which cells break a campaign's policy, which are inconclusive, and the exit code."""

from __future__ import annotations

from typing import Literal

import pytest

from analysis.campaign import tally_of
from harness.campaigns.plan import (
    Policy,
    Tally,
    breaking,
    exit_code,
    inconclusive,
    inconclusive_in_words,
)
from tests.fixtures.synthetic_results import FAILED, lossy, run

FailOn = Literal["any", "all", "never"]
DOCUMENTS = {
    "i": lossy(),
    "v": run(),
    "u": run("unknown", doubts=("incomplete",)),
    "f": FAILED,
    "s": lossy(doubts=("starved",)),
    "p": run(proven=False),
    "w": run("invalid", counter_examples=("duplicates",)),
}


def cells(**runs_of: str) -> dict[str, Tally]:
    return {name: tally_of(DOCUMENTS[run] for run in runs) for name, runs in runs_of.items()}


@pytest.mark.parametrize(
    ("fail_on", "share", "x", "y", "broken"),
    [
        ("any", 0, "vvv", "vvi", {"y"}),
        ("any", 0, "vvv", "vvv", set()),
        ("any", 0, "", "i", {"y"}),
        ("any", 0, "uuu", "fff", set()),
        ("any", 0, "vvv", "vvw", {"y"}),
        ("any", 0, "vvv", "vvs", {"y"}),  # one counter-example is enough
        ("any", 0.5, "iv", "iiv", {"y"}),
        ("any", 0.5, "vv", "iivuuuuuf", {"y"}),
        ("any", 0.5, "vv", "vissss", set()),  # half of those that count
        ("any", 0.5, "vv", "iivpppp", {"y"}),
        ("all", 0, "vvv", "vvi", set()),
        ("all", 0, "ivv", "vvi", {"x", "y"}),
        ("all", 0, "", "i", {"y"}),
        ("never", 0, "iii", "iii", set()),
    ],
)
def test_policies(fail_on: FailOn, share: float, x: str, y: str, broken: set[str]) -> None:
    assert breaking(Policy(fail_on=fail_on, share=share), cells(x=x, y=y, z="")) == broken


@pytest.mark.parametrize(
    ("fail_on", "x", "y", "names", "code"),
    [
        ("any", "v", "v", set(), 0),
        ("any", "v", "uuu", {"y"}, 3),
        ("any", "v", "fff", {"y"}, 3),
        ("any", "v", "ppp", {"y"}, 3),
        ("any", "v", "", {"y"}, 3),
        ("any", "i", "uuu", {"y"}, 1),
        ("any", "v", "sss", {"y"}, 1),
        ("all", "v", "uuu", {"y"}, 3),
        ("never", "i", "uuu", set(), 0),
        ("never", "sss", "uuu", {"x", "y"}, 3),
    ],
)
def test_inconclusive_cells(fail_on: FailOn, x: str, y: str, names: set[str], code: int) -> None:
    policy, tallies = Policy(fail_on=fail_on), cells(x=x, y=y)
    assert inconclusive(policy, tallies) == names
    assert exit_code(policy, tallies) == code
    assert (inconclusive_in_words(policy, tallies) is None) == (not names)
