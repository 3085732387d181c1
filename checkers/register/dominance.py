"""How many numbers in a stretch of an array are below a bound, for many stretches at once.

A wavelet matrix (Claude, Navarro, Ordóñez, "The wavelet matrix", Information Systems 47, 2015): the
numbers are split by their bits from the highest down, and each question walks down with them. One
pass over columns a bit, O((n + q) log n) in all.
"""

from __future__ import annotations

import numpy as np

from checkers.register.operations import Ints


def counts_below(numbers: Ints, begin: Ints, end: Ints, bound: Ints) -> Ints:
    """For each question, how many of numbers[begin:end] are below its bound; none is negative."""
    left, counted = numbers, np.zeros(len(begin), np.int64)
    highest = max(int(numbers.max(initial=0)), int(bound.max(initial=0)))
    for bit in reversed(range(highest.bit_length())):
        ones = (left >> bit) & 1 != 0
        zeros = np.concatenate([[0], np.cumsum(~ones)])
        wants_one = (bound >> bit) & 1 != 0
        zeros_begin, zeros_end = zeros[begin], zeros[end]
        counted += np.where(wants_one, zeros_end - zeros_begin, 0)
        begin = np.where(wants_one, zeros[-1] + begin - zeros_begin, zeros_begin)
        end = np.where(wants_one, zeros[-1] + end - zeros_end, zeros_end)
        left = np.concatenate([left[~ones], left[ones]])
    return counted
