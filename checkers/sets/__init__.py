"""The set checker: lost, stale and never-read elements of a set, with their latencies."""

from checkers.sets.checker import Set

__all__ = ["Set"]
