"""Fixtures of the tests of the harness."""

from __future__ import annotations

from tests.fixtures.planting import plant

__all__ = ["plant"]
