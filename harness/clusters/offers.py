"""The levers that each kind of cluster offers, known before a cluster is made."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from harness.levers import all_levers

OFFERED: Final[Mapping[str, Collection[str]]] = {"docker": tuple(all_levers({}))}
"""The names of the levers by kind of cluster."""
