"""Runs of one worker that are alike are found, however many cells of shared runs are
inconclusive."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.campaign import resemblances
from analysis.statistics.cells import Outcome
from analysis.statistics.contrasts import Resemblance
from harness.campaigns.journal import Run
from tests.fixtures.synthetic_results import lossy, run

CELLS = [f"c{number}" for number in range(12)]


def of_workers(lossy_share: tuple[float, float], *, inconclusive: float) -> dict[str, Resemblance]:
    """50 shared runs of 12 cells, in turn by two workers whose runs lose as often as this."""
    rng = np.random.default_rng(3)
    results: list[tuple[Run, Outcome]] = []
    for repetition in range(50):
        worker = repetition % 2
        for cell in CELLS:
            lost, missing = rng.random() < lossy_share[worker], rng.random() < inconclusive
            outcome = run("unknown") if missing else lossy() if lost else run()
            name = f"{repetition}.{cell}"
            results.append((Run(name, cell, repetition, worker, str(repetition)), outcome))
    return resemblances(results, lambda each: each.worker)


@pytest.mark.parametrize("inconclusive", [0.0, 0.4])
def test_workers_that_differ_are_found(inconclusive: float) -> None:
    found = of_workers((0.8, 0.2), inconclusive=inconclusive)["lossy"]
    assert (found.groups, found.runs) == (2, 50)
    assert found.p is not None
    assert found.p < 0.01
    assert found.correlation is not None
    assert found.correlation > 0.5


def test_workers_that_do_not_differ_are_not_found() -> None:
    found = of_workers((0.5, 0.5), inconclusive=0.2)["lossy"]
    assert found.p is not None
    assert found.p > 0.05
