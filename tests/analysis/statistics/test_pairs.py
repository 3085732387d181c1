"""Cells that share runs: the exact test, the interval, who counts, and what simulation shows.

Oracles: published figures, enumeration of every outcome, a closed form of the same interval, and
campaigns with a known truth (`bench.pairs`; docs/reference/statistics.md has more of them).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from scipy import stats

from analysis.campaign import campaign_document, run_rows
from analysis.statistics.cells import Outcome
from analysis.statistics.comparisons import Comparison, comparisons_of
from analysis.statistics.contrasts import (
    ALPHA,
    MCNEMAR,
    NO_PAIR,
    TANGO,
    Pairs,
    exact_test,
    mcnemar,
    p_within,
    paired_difference,
    pairs_needed,
    tango,
)
from analysis.statistics.intervals import PAIRED_T, Share, mean_of_differences
from bench.pairs import Kind, simulated
from tests.fixtures import result_documents
from tests.fixtures.budget import budget
from tests.fixtures.campaign_folder import OFF, ON, build
from tests.fixtures.synthetic_results import FAILED, lossy, run

pytestmark = pytest.mark.slow

LOSS, NONE = lossy(100), run()
STARVED, STARVED_LOSS = run("unknown", doubts=["starved"]), lossy(100, doubts=["starved"])


def compared(a: Sequence[Outcome], b: Sequence[Outcome], *shared: list[Any]) -> Comparison:
    """Two cells; `shared` names the run of each of their results."""
    runs = list(shared) or [list(range(len(a))), list(range(len(b)))]
    (comparison,) = comparisons_of([({"v": 1}, a), ({"v": 2}, b)], shared=runs)
    return comparison


def test_published_figures() -> None:
    """Bentur et al. 2009, as Fagerland, Lydersen and Laake (2013) compute them: 1 and 7 of 21."""
    assert mcnemar(7, 1).p == pytest.approx(0.0703, abs=5e-5)
    assert tango(7, 1, 21) == pytest.approx((-0.517, -0.026), abs=5e-4)


def test_it_equals_the_test_within_clusters_with_a_cluster_for_each_pair() -> None:
    for only_a, only_b, both, neither in product(range(4), range(6), (0, 2), (0, 3)):
        parts = [(1, 0)] * only_a + [(0, 1)] * only_b + [(1, 1)] * both + [(0, 0)] * neither
        a, b = ({n: Share(pair[side], 1) for n, pair in enumerate(parts)} for side in (0, 1))
        assert mcnemar(only_a, only_b).p == pytest.approx(p_within(a, b) if a else 1.0)


def test_it_equals_enumeration_of_every_exchange_within_pairs() -> None:
    """Under "no difference" each differing pair is as likely the other way round."""
    for only_a, only_b in product(range(6), repeat=2):
        differing = only_a + only_b
        ways = [sum(way) for way in product((0, 1), repeat=differing)]
        extreme = [abs(n - differing / 2) >= abs(only_b - differing / 2) for n in ways]
        assert mcnemar(only_a, only_b).p == pytest.approx(np.mean(extreme))


def closed_form(only_a: int, only_b: int, pairs: int) -> list[float]:
    """Tango's limits as roots of a quartic (Yang, Sun and Hardin 2013, Stat. Med. 32:1336)."""
    g, apart, both = stats.norm.ppf(0.975) ** 2, only_b - only_a, only_a + only_b
    n = pairs
    roots = np.roots(
        [
            n**2 * (n / g + 1) ** 2,
            -n * apart * (n / g + 1) * (4 * n / g + 1),
            2 * n * apart**2 * (3 * n / g + 2) / g - n**2 * (both / g + 1),
            n * apart * (2 * both / g + 1) - apart**3 * (4 * n / g + 1) / g,
            apart**2 * (apart**2 / g - both) / g,
        ]
    )
    real = [root.real for root in roots if abs(root.imag) < 1e-6]
    return [min(real), max(real)]


@pytest.mark.parametrize("pairs", [1, 2, 8])
def test_the_interval_equals_its_closed_form_for_every_table(pairs: int) -> None:
    for only_a in range(pairs + 1):
        for only_b in range(pairs + 1 - only_a):
            expected = closed_form(only_a, only_b, pairs)
            assert tango(only_a, only_b, pairs) == pytest.approx(expected, abs=2e-5)


@cache
def computed(pairs: int, only_a: float, only_b: float) -> tuple[float, float]:
    """How often the interval covers and the test calls, summed over all tables."""
    covered = called = 0.0
    for a in range(pairs + 1):
        for b in range(pairs + 1 - a):
            parts, chances = [a, b, pairs - a - b], [only_a, only_b, 1 - only_a - only_b]
            chance = float(stats.multinomial.pmf(parts, pairs, chances))
            if chance > 1e-7:
                low, high = tango(a, b, pairs)
                covered += chance * (low - 1e-9 <= only_b - only_a <= high + 1e-9)
                called += chance * ((mcnemar(a, b).p or 0) <= ALPHA)
    return covered, called


@pytest.mark.parametrize("pairs", [10, 20])
@pytest.mark.parametrize("differing", [0.01, 0.05, 0.2, 0.4])
def test_at_most_five_per_cent_of_errors_at_any_share(pairs: int, differing: float) -> None:
    covered, called = computed(pairs, differing, differing)
    assert called <= ALPHA
    assert covered >= 0.945


@pytest.mark.parametrize(("only_a", "only_b"), [(0.0, 0.1), (0.1, 0.5)])
def test_the_interval_covers_a_difference(only_a: float, only_b: float) -> None:
    assert computed(20, only_a, only_b)[0] >= 0.93


@pytest.mark.parametrize(
    ("only_a", "only_b", "complete"), [(0, 5, 25), (2, 10, 100), (5, 30, 100), (10, 20, 100)]
)
def test_the_pairs_needed_have_the_power(only_a: int, only_b: int, complete: int) -> None:
    seen = Pairs(only_a=only_a, only_b=only_b, neither=complete - only_a - only_b)
    needed = pairs_needed(seen)
    assert needed is not None
    rng = np.random.default_rng(1)
    chances = [only_a / complete, only_b / complete, seen.neither / complete]
    tables = rng.multinomial(needed, chances, size=4_000)
    power = np.mean([(mcnemar(int(a), int(b)).p or 0) <= ALPHA for a, b, _ in tables])
    assert 0.78 <= power <= 0.95
    assert pairs_needed(Pairs(only_a=3, only_b=3, both=10)) is None


def test_a_planted_difference_is_found_and_none_where_there_is_none() -> None:
    """Every run is bad or good for both cells; b also loses in good runs."""
    a = [LOSS, LOSS, LOSS, NONE, NONE] * 6
    b = [LOSS, LOSS, LOSS, LOSS, NONE] * 6
    found = compared(a, b)
    assert (found.test, found.method) == (MCNEMAR, TANGO)
    assert found.pairs == Pairs(both=18, only_b=6, neither=6)
    assert found.is_significant
    assert not found.doubtful
    assert found.difference == pytest.approx(0.2)
    assert found.low is not None
    assert found.low > 0
    p = exact_test(Share(18, 30), Share(24, 30)).p
    assert p is not None
    assert p > ALPHA, "the same results of independent runs show nothing"
    same = compared(a, a)
    assert (same.p, same.difference, same.runs_needed) == (1.0, 0.0, None)


def test_only_complete_pairs_count_and_the_others_are_counted() -> None:
    a = [LOSS, NONE, NONE, STARVED, FAILED, LOSS] * 5
    b = [LOSS, LOSS, STARVED_LOSS, LOSS, LOSS, NONE] * 5
    found = compared(a, b)
    assert found.pairs == Pairs(both=5, only_a=5, only_b=5, neither=0, incomplete=15)
    assert (found.difference, found.p) == (0.0, 1.0)
    assert found.bounds.least == pytest.approx(5 / 30), "two of six columns rise, one falls"
    assert found.bounds.greatest == pytest.approx(15 / 30), "four rise, one falls"


def test_incomplete_pairs_that_can_reverse_a_difference_make_it_doubtful() -> None:
    a = [NONE] * 10 + [NONE] * 20
    b = [LOSS] * 10 + [NONE] * 20
    assert not compared(a, b).doubtful
    starved = [NONE] * 10 + [STARVED] * 8 + [NONE] * 12
    found = compared(starved, b)
    assert found.is_significant
    assert found.doubtful
    assert found.bounds.p_against == pytest.approx(mcnemar(8, 10).p or 0)
    assert (found.bounds.least, found.bounds.greatest) == (2 / 30, 10 / 30)


def test_cells_are_pairs_only_if_they_shared_most_of_their_runs() -> None:
    runs, alone = [LOSS] * 10 + [NONE] * 10, [None] * 20
    every = list(range(20))
    assert compared(runs, runs, every, every).test == MCNEMAR
    assert compared(runs, runs, every, [*every[:10], *alone[:10]]).test == MCNEMAR
    assert compared(runs, runs, every, [*every[:9], *alone[:11]]).test == "Barnard"
    assert compared(runs, runs, every, [n + 20 for n in every]).test == "Barnard"
    strangers = compared(runs, runs, alone, alone)
    assert (strangers.test, strangers.pairs) == ("Barnard", Pairs())


def test_how_a_run_ended_does_not_decide_whether_cells_are_pairs() -> None:
    every = list(range(20))
    found = compared([LOSS] * 20, [FAILED] * 20, every, every)
    assert found.pairs == Pairs(incomplete=20)
    assert (found.p, found.difference, found.why) == (None, None, NO_PAIR)
    assert found.loss_rate.estimate is None


def test_pairs_are_matched_by_run_and_not_by_place() -> None:
    a, b = [LOSS] * 10 + [NONE] * 10, [NONE] * 10 + [LOSS] * 10
    assert compared(a, b, list(range(20)), list(range(20))).pairs.only_a == 10
    assert compared(a, b, list(range(20)), list(range(19, -1, -1))).pairs.both == 10


def test_no_pair_gives_no_interval() -> None:
    assert paired_difference(Pairs(incomplete=3)).why == NO_PAIR


def test_rates_of_pairs() -> None:
    a = np.arange(40) % 2 * 0.5
    some = mean_of_differences(a, a + 0.1 * (np.arange(40) % 4 == 1))
    assert some.method == PAIRED_T
    assert some.low is not None
    assert some.high is not None
    assert 0 < some.low < 0.025 < some.high < 0.1
    assert mean_of_differences(a, a).why == "0 pairs differ, a bootstrap needs 10"
    assert mean_of_differences(a, a + 0.1).why is not None
    assert mean_of_differences(a[:0], a[:0]).estimate is None


@pytest.mark.full
def test_simulated_pairs_err_as_promised_and_find_what_independent_tests_miss() -> None:
    """Cells that a run moves in the same direction: the test for independent samples is
    conservative, and misses a difference that pairs show."""
    same = simulated(Kind(0.3, 0.3, 0.8), campaigns=300, rates=False)
    assert same["correlation"] > 0.4
    assert same["mcnemar"] <= ALPHA
    assert same["barnard"] <= 0.01
    assert same["tango"] >= 0.93
    assert same["newcombe"] >= 0.98
    apart = simulated(Kind(0.3, 0.5, 0.9), campaigns=300, rates=False)
    assert apart["mcnemar"] > apart["barnard"] + 0.2
    assert apart["tango"] >= 0.93


@pytest.mark.full
def test_simulated_cells_that_a_run_moves_apart_mislead_the_independent_test() -> None:
    found = simulated(Kind(0.3, 0.3, -0.9), campaigns=600, rates=False)
    assert found["correlation"] < -0.3
    assert found["mcnemar"] <= ALPHA + 0.01
    assert found["barnard"] > 0.07
    assert found["newcombe"] < found["tango"]
    assert found["tango"] >= 0.93


def test_simulated_rates_are_covered() -> None:
    found = simulated(Kind(0.3, 0.3, 0.5), campaigns=budget(30, 60))
    assert found["pairs"] >= 0.9


def test_a_campaign_knows_which_runs_were_shared(tmp_path: Path) -> None:
    lost, none = result_documents.lossy(), result_documents.run()
    runs = {ON: [lost] * 8 + [none] * 2, OFF: [none] * 10}
    shared = build(tmp_path / "shared", runs, shared=True)
    (comparison,) = campaign_document(shared).comparisons
    assert comparison.test == MCNEMAR
    assert comparison.pairs == Pairs(only_a=8, neither=2)
    assert [row["shared"] for row in run_rows(shared)] == [f"shared-{n}" for n in range(10)] * 2
    assert campaign_document(shared).json()["comparisons"][0]["pairs"]["only_a"] == 8


def test_cells_of_a_run_that_are_alike_are_not_taken_for_similar_clusters(tmp_path: Path) -> None:
    """Each run is bad or good for both of its cells, and has its own cluster."""
    rng = np.random.default_rng(5)
    lost, none = result_documents.lossy(), result_documents.run()
    documents = [lost if bad else none for bad in rng.random(60) < 0.5]
    found = {}
    for shared in (True, False):
        folder = build(
            tmp_path / f"c{shared}",
            {ON: documents, OFF: documents},
            head="repetitions = 60",
            shared=shared,
        )
        for place, file in enumerate(sorted(folder.runs.glob("*/run.json"))):
            document = orjson.loads(file.read_bytes())
            cluster = {"id": f"c{place % 60}"}  # one for each run of both cells
            file.write_bytes(orjson.dumps({**document, "cluster": cluster}))
        found[shared] = campaign_document(folder).resemblance["cluster"]["lossy"]
    assert found[False].p is not None
    assert found[False].p < 0.01, "as if both cells had met this cluster by themselves"
    assert (found[True].runs, found[True].why) == (60, "no two runs share a group")
