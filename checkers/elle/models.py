"""Which consistency models an anomaly rules out.

Adya, "Weak Consistency", PhD thesis, MIT 1999; Cerone, Bernardi and Gotsman, "A Framework for
Transactional Consistency Models with Atomic Visibility", CONCUR 2015; Bailis et al., "Highly
Available Transactions", VLDB 7 (3), 2013. The lattice is the part of Elle's that these anomalies
reach; models without a phenomenon of their own are left out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, get_args

Model = Literal[
    "strict-serializable",
    "strong-session-serializable",
    "serializable",
    "strong-snapshot-isolation",
    "strong-session-snapshot-isolation",
    "snapshot-isolation",
    "parallel-snapshot-isolation",
    "repeatable-read",
    "consistent-view",
    "cursor-stability",
    "read-atomic",
    "strong-read-committed",
    "strong-session-read-committed",
    "read-committed",
    "strong-read-uncommitted",
    "strong-session-read-uncommitted",
    "read-uncommitted",
]
"""The strongest first."""

MODELS: Final[tuple[str, ...]] = get_args(Model)

_IMPLIES: Final = {
    "strict-serializable": ("strong-session-serializable", "strong-snapshot-isolation"),
    "strong-session-serializable": ("serializable", "strong-session-snapshot-isolation"),
    "serializable": ("repeatable-read", "snapshot-isolation"),
    "strong-snapshot-isolation": (*("strong-session-snapshot-isolation", "strong-read-committed"),),
    "strong-session-snapshot-isolation": (
        *("snapshot-isolation", "strong-session-read-committed"),
    ),
    "snapshot-isolation": ("parallel-snapshot-isolation", "consistent-view"),
    "parallel-snapshot-isolation": ("read-atomic",),
    "repeatable-read": ("cursor-stability",),
    "consistent-view": ("cursor-stability",),
    "cursor-stability": ("read-committed",),
    "read-atomic": ("read-committed",),
    "strong-read-committed": ("strong-session-read-committed", "strong-read-uncommitted"),
    "strong-session-read-committed": ("read-committed", "strong-session-read-uncommitted"),
    "read-committed": ("read-uncommitted",),
    "strong-read-uncommitted": ("strong-session-read-uncommitted",),
    "strong-session-read-uncommitted": ("read-uncommitted",),
}
"""What a model promises, its weaker ones promise too."""

_FORBIDDEN_BY: Final = {
    "duplicate-elements": ("read-uncommitted",),
    "G0": ("read-uncommitted",),
    **dict.fromkeys(
        ("unexpected", "incompatible-order", "dirty-update", "future-read", "G1a", "G1b", "G1c"),
        ("read-committed",),
    ),
    "internal": ("read-atomic",),
    "lost-update": ("cursor-stability", "parallel-snapshot-isolation"),
    "G-single": ("consistent-view", "repeatable-read"),
    "G-nonadjacent": ("snapshot-isolation", "repeatable-read"),
    "G2-item": ("repeatable-read",),
    "G0-process": ("strong-session-read-uncommitted",),
    "G1c-process": ("strong-session-read-committed",),
    "G-single-process": ("strong-session-snapshot-isolation",),
    "G-nonadjacent-process": ("strong-session-snapshot-isolation",),
    "G2-item-process": ("strong-session-serializable",),
    "G0-realtime": ("strong-read-uncommitted",),
    "G1c-realtime": ("strong-read-committed",),
    "G-single-realtime": ("strong-snapshot-isolation",),
    "G-nonadjacent-realtime": ("strong-snapshot-isolation",),
    "G2-item-realtime": ("strict-serializable",),
}
"""The weakest models that forbid each anomaly."""


def _promised(model: str) -> set[str]:
    """A model and all that are weaker."""
    return {model}.union(*map(_promised, _IMPLIES.get(model, ())))


_PROMISED: Final = {model: _promised(model) for model in MODELS}


def ruled_out(anomalies: Iterable[str]) -> set[str]:
    """The models that do not hold where there are these anomalies."""
    direct = {model for each in anomalies for model in _FORBIDDEN_BY[each]}
    return {model for model in MODELS if _PROMISED[model] & direct}


def weakest(models: set[str]) -> list[str]:
    """Those of the models that no other of them is weaker than."""
    return [each for each in MODELS if each in models and _PROMISED[each] & models == {each}]


_KNOWN: Final = (
    *("strict-serializable", "serializable", "snapshot-isolation", "repeatable-read"),
    *("read-committed", "read-uncommitted"),
)
"""Models that are named where they are ruled out, even if weaker ones are too."""


def in_words(anomalies: Iterable[str]) -> str:
    """The models that are ruled out, the weakest first: "not repeatable read, not serializable"."""
    out = ruled_out(anomalies)
    named = [each for each in reversed(MODELS) if each in out and each in (*weakest(out), *_KNOWN)]
    return ", ".join(f"not {each.replace('-', ' ')}" for each in named)
