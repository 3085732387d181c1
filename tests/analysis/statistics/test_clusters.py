"""Runs that share a cluster: a planted similarity is found, and the test within clusters holds."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import orjson
import pytest

from analysis.campaign import campaign_document, run_rows
from analysis.statistics.comparisons import comparisons_of
from analysis.statistics.contrasts import WITHIN, exact_test, p_within, resemblance, share_clusters
from analysis.statistics.intervals import Share
from bench.clusters import SPREADS, simulated
from tests.fixtures import result_documents
from tests.fixtures.budget import budget
from tests.fixtures.campaign_folder import OFF, ON, build
from tests.fixtures.synthetic_results import lossy, run

pytestmark = pytest.mark.slow

CELLS = [cell for cell in range(4) for _ in range(30)]
GROUPS = [n % 5 for n in range(120)]


def drawn(seed: int, *, apart: float) -> np.ndarray:
    """The losses of runs, about half of them, on clusters that differ by this much."""
    rng = np.random.default_rng(seed)
    by_group = 0.5 + apart * np.array([-1, -0.5, 0, 0.5, 1])
    return (rng.random(120) < by_group[GROUPS]).astype(float)


def test_clusters_that_differ_are_found_and_measured() -> None:
    found = resemblance(CELLS, GROUPS, drawn(1, apart=0.4))
    assert (found.groups, found.runs) == (5, 120)
    assert found.p is not None
    assert found.p < 0.01
    assert found.correlation == pytest.approx(0.4**2 / 2 / 0.25, abs=0.15)  # variance between
    in_turn = resemblance([n % 4 for n in range(120)], sorted(GROUPS), drawn(0, apart=0.1))
    assert in_turn.p == 0.353, "one seed, one order of runs: the same on any machine"


def test_clusters_that_do_not_differ_are_rarely_called() -> None:
    every = [resemblance(CELLS, GROUPS, drawn(seed, apart=0)) for seed in range(40)]
    assert sum(each.p <= 0.05 for each in every if each.p is not None) <= 5
    assert abs(np.mean([each.correlation for each in every])) < 0.02


def test_differences_of_cells_are_not_attributed_to_clusters() -> None:
    """One cell always loses and the other never, and a cluster has more runs of the first."""
    cells = ["x"] * 20 + ["y"] * 20
    groups = ["a"] * 15 + ["b"] * 5 + ["a"] * 5 + ["b"] * 15
    values = np.array([1.0] * 20 + [0.0] * 20)
    assert resemblance(cells, groups, values).why == "the runs of a cell do not differ"
    values[0] = 0.0
    found = resemblance(cells, groups, values)
    assert found.p is not None
    assert found.p > 0.05


@pytest.mark.parametrize(
    ("groups", "why"),
    [(["a"] * 4, "there are fewer than two groups"), (list("abcd"), "no two runs share a group")],
)
def test_without_shared_groups_nothing_is_estimated(groups: list[str], why: str) -> None:
    found = resemblance(["x"] * 4, groups, np.array([0.0, 1.0, 0.0, 1.0]))
    assert (found.correlation, found.p, found.why) == (None, None, why)


def by_hand(a: dict[str, list[int]], b: dict[str, list[int]]) -> float:
    """The same p-value from all assignments of the runs of each cluster to the cells."""
    chances = {0: 1.0}
    for cluster in a:
        runs = a[cluster] + b[cluster]
        ways = [
            sum(runs[n] for n in few) for few in combinations(range(len(runs)), len(b[cluster]))
        ]
        chances = {
            total: sum(p * ways.count(total - before) / len(ways) for before, p in chances.items())
            for total in range(sum(map(sum, [*a.values(), *b.values()])) + 1)
        }
    seen = chances[sum(map(sum, b.values()))]
    return sum(p for p in chances.values() if p <= seen * (1 + 1e-7))


def test_the_exact_test_equals_enumeration() -> None:
    a = {"c": [1, 0, 0, 0], "d": [0, 0, 1], "e": [0, 0]}
    b = {"c": [1, 1, 0], "d": [1, 1, 1, 0], "e": [1]}
    strata = [{name: Share(sum(runs), len(runs)) for name, runs in cell.items()} for cell in (a, b)]
    assert p_within(strata[0], strata[1]) == pytest.approx(by_hand(a, b))


def test_a_difference_of_clusters_is_not_called_one_of_cells() -> None:
    """One cluster always loses, the other never; the runs of the cells are spread unevenly."""
    a = {"bad": Share(5, 5), "good": Share(0, 25)}
    b = {"bad": Share(25, 25), "good": Share(0, 5)}
    assert share_clusters(a, b)
    assert p_within(a, b) == 1
    p = exact_test(Share(5, 30), Share(25, 30)).p
    assert p is not None
    assert p < 1e-5


def test_cells_are_tested_within_clusters_only_where_these_served_both() -> None:
    runs = [lossy()] * 10 + [run()] * 10
    both, one = ["c1", "c2"] * 10, ["c1"] * 20

    def test(*clusters: list[Any]) -> str:
        (comparison,) = comparisons_of([({"v": 1}, runs), ({"v": 2}, runs)], list(clusters))
        return str(comparison.test)

    assert test(both, both) == WITHIN
    assert test(one, one) == "Barnard", "all runs share one cluster"
    assert test(both, ["c3", "c4"] * 10) == "Barnard"
    assert test(both, ["c1"] * 15 + ["c9"] * 5) == "Barnard"
    assert test([None] * 20, [None] * 20) == "Barnard"


def test_a_campaign_reports_the_similarity_by_cluster_and_worker(tmp_path: Any) -> None:
    runs = [result_documents.lossy(), result_documents.run()] * 5
    folder = build(tmp_path / "c", {ON: runs, OFF: runs})
    for place, file in enumerate(sorted(folder.runs.glob("*/run.json"))):
        document = orjson.loads(file.read_bytes())
        file.write_bytes(orjson.dumps({**document, "cluster": {"id": f"c{place % 2}"}}))
    document = campaign_document(folder)
    by_cluster = document.resemblance["cluster"]
    assert by_cluster["lossy"].groups == 2
    assert by_cluster["lossy"].correlation == pytest.approx(1)
    assert by_cluster["loss_rate"].p is not None
    assert by_cluster["loss_rate"].p <= 0.05
    assert document.resemblance["worker"]["lossy"].why == "there are fewer than two groups"
    assert [each.test for each in document.comparisons] == [WITHIN]
    assert {row["cluster"] for row in run_rows(folder)} == {"c0", "c1"}
    assert {row["worker"] for row in run_rows(folder)} == {1}


def test_clusters_that_differ_mislead_a_test_that_ignores_them() -> None:
    """A few campaigns; docs/reference/statistics.md has more, of other kinds."""
    barnard, within, _ = simulated(0.3, SPREADS["unevenly"], campaigns=budget(40, 80))
    assert barnard > 0.2
    assert within <= 0.1
