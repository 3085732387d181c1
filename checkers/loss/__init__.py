"""The loss checker: which acknowledged writes are gone, and what else was not promised."""

from checkers.loss.checker import Loss

__all__ = ["Loss"]
