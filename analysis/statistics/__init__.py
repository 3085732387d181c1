"""Statistics of a campaign: pure functions over the results of its runs.

    intervals    a share of runs (exact and Wilson's, and as a sentence); means, ratios (BCa
                 bootstrap over runs) and medians
    contrasts    two shares: difference, exact test, runs needed, equivalence; of cells that share
                 runs (pairs), and of runs that share a cluster
    cells        a cell's results -> which count, verdict classes, numbers -> the `cells[]` of
                 campaign.json
    comparisons  two samples, or all pairs that differ in one axis -> the `comparisons[]`

The run is the unit: the writes of one run share its fate, so they never count as independent. The
results of several cells in one run are pairs.
docs/reference/statistics.md describes each method, its source and its coverage.
"""
