"""Two or more campaigns compared: what changed in the cells that they share, and what that proves.

    sampled      one campaign, as far as the comparison reads it
    differences  what else differs: plan, axes, versions
    document     the cells of two campaigns tested against each other
    trend        every cell over all campaigns
    sentences    what follows from the tests, and what does not
    figure       the trend as a picture

Two campaigns are two samples of runs. The comparison asks one question of each cell, so p-values
are corrected for the number of cells. Runs that are not conclusive prove nothing: a campaign in
which half of the runs are `unknown` is neither better nor worse for it.
"""
