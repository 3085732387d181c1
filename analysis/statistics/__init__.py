"""Statistics of a campaign: pure functions over the result documents of its runs.

    shares       intervals for a share of runs, exact and Wilson's, and what they say in words
    resampling   intervals for means and ratios over runs (BCa bootstrap), and for medians
    contrasts    two shares compared: difference, exact test, runs needed
    equivalence  whether two shares are the same but for a margin
    eligibility  which runs count, decided without looking at what they lost
    samples      the documents of a cell's runs -> verdict classes and the numbers of each run
    cells        a sample -> the `cells[]` of campaign.json
    clusters     runs that share a cluster: how alike they are, and a test that allows for it
    comparisons  two samples, or all that differ in one axis -> the `comparisons[]`

The run is the unit throughout: writes of one run share its fate, so they are never counted as
independent. What each method is, where it comes from and what it covers: docs/statistics.md.
"""
