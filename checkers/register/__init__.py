"""The register checker: is each key linearizable, how stale were its reads, the smallest proof."""

from checkers.register.checker import Register

__all__ = ["Register"]
