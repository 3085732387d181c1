"""Which cells break a campaign's policy."""

from __future__ import annotations

from typing import Literal

import pytest

from harness.campaigns.plan import Policy
from harness.campaigns.policy import breaking
from harness.campaigns.progress import Run

FailOn = Literal["any", "all", "never"]


def runs(**verdicts: str) -> list[Run]:
    names = {"i": "invalid", "v": "valid", "u": "unknown", "f": None}
    return [
        Run(f"{cell}{place}", cell, place, 1, "failed" if each == "f" else "done", names[each])
        for cell, told in verdicts.items()
        for place, each in enumerate(told)
    ]


@pytest.mark.parametrize(
    ("fail_on", "share", "x", "y", "broken"),
    [
        ("any", 0, "vvv", "vvi", {"y"}),
        ("any", 0, "vvv", "vvv", set()),
        ("any", 0, "", "i", {"y"}),
        ("any", 0, "uuu", "fff", set()),
        ("any", 0.5, "iv", "iiv", {"y"}),
        ("any", 0.5, "vv", "iivuuuuuf", {"y"}),
        ("all", 0, "vvv", "vvi", set()),
        ("all", 0, "ivv", "vvi", {"x", "y"}),
        ("all", 0, "", "i", {"y"}),
        ("never", 0, "iii", "iii", set()),
    ],
)
def test_policies(fail_on: FailOn, share: float, x: str, y: str, broken: set[str]) -> None:
    policy = Policy(fail_on=fail_on, share=share)
    assert breaking(policy, runs(x=x, y=y), ["x", "y", "z"]) == broken
