"""Nights: the same cells of two or more campaigns, what changed between them and what that proves.

    night      one campaign, as far as nights are compared
    differing  what else is not the same: plan, axes, versions
    document   the cells of two nights tested against each other, and the trend over all
    words      what can be concluded from that, and what cannot
    figure     the trend as a picture

Two nights are two samples of runs. What is asked of them is one question for each cell, so their
p-values are corrected for as many as there are. Runs that are not conclusive prove nothing: a
night in which half of the runs are `unknown` is neither better nor worse for it.
"""
