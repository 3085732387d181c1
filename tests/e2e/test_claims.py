"""Claims of the five documents on real clusters, asked as `make claims` asks them.

`make test` asks one of them here, by its plan, and A1, A2 and C6 of runs that other tests make
(`fixtures.claims`): it finds the loss of A1 and, in the same plan with safe settings, none.
"""

from __future__ import annotations

import pytest

from scripts import claims
from tests.fixtures.budget import full

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


@pytest.mark.parametrize("name", ["B14", *full("A6", "E6")])
def test_a_claim_holds_on_a_real_cluster(name: str) -> None:
    (claim,) = [each for each in claims.claims() if each.id == name]
    runs = {" ".join(part.command): [conclusive(part)] for part in claim.parts if part.plan}
    assert claims.verdict(claim, claims.answers_of(claim, runs)) == "holds", runs


def conclusive(part: claims.Part) -> claims.Run:
    """A run whose load this machine held up proves nothing, and is made again."""
    return next(
        (run for _ in range(2) if "starved" not in (run := claims.run_once(part)).doubts),
        claims.Run(date="", reason="the load was held up twice"),
    )
