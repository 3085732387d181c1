"""What a group of consumers did with the records of a log."""

from __future__ import annotations

from checkers.delivery.checker import Delivery

__all__ = ["Delivery"]
