"""Statistics of a campaign: pure functions over the results of its runs.

    shares       intervals for a share of runs, exact and Wilson's, and as a sentence
    resampling   intervals for means and ratios over runs (BCa bootstrap), and for medians
    contrasts    two shares: difference, exact test, runs needed, equivalence
    samples      a cell's results -> which count, verdict classes, numbers
    cells        a sample -> the `cells[]` of campaign.json
    clusters     runs that share a cluster: their similarity, and a test that allows for it
    pairs        cells that share runs: test, interval and number of runs for pairs
    comparisons  two samples, or all pairs that differ in one axis -> the `comparisons[]`

The run is the unit: the writes of one run share its fate, so they never count as independent. The
results of several cells in one run are pairs.
docs/reference/statistics.md describes each method, its source and its coverage.
"""
