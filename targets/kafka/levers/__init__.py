"""Kafka's own levers: what a fault needs that only Kafka can do.

leaders     leaders that can be moved on request, whichever the mode
leadership  the lever that moves them
dry_run     leaders that never move
"""

from __future__ import annotations
