"""What clients that are processes of the user's (`workload.client = "exec"`) did in a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple


class _Kinds(NamedTuple):
    """How a process can violate the protocol."""

    lie: str = "lie"  # a line that it may not write, or an answer to no request
    flood: str = "flood"  # a line, or a log, beyond every limit
    hang: str = "hang"  # it says nothing, or does not end
    death: str = "death"  # it ended by itself, or did not start
    blocked: str = "blocked"  # it left an operation without an answer, and answered others


INCIDENTS: Final = _Kinds()


@dataclass(frozen=True, kw_only=True)
class Incident:
    """One thing that client `client` did, `at_s` seconds after the run's start."""

    client: int
    at_s: float
    kind: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Conduct:
    """What the processes of the user's did in one run, as run.json and result.json hold it.

    command    the command line of `--client`
    software   the library and its version, as the processes report it
    started    how many processes were started, restarts included
    lies, floods, hangs, deaths, blocked   how often each of `INCIDENTS` happened
    late       blocked operations that were answered after all; they are a part of `blocked`
    ended      operations that were in flight in a process that ended, and so are unknown
    incidents  the first of them
    """

    command: tuple[str, ...] = ()
    software: str = ""
    started: int = 0
    lies: int = 0
    floods: int = 0
    hangs: int = 0
    deaths: int = 0
    blocked: int = 0
    late: int = 0
    ended: int = 0
    incidents: tuple[Incident, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        """How often each kind of incident happened, by the names of the fields."""
        return {name: getattr(self, name) for name in COUNTED}

    @property
    def clean(self) -> bool:
        """Whether they kept to the protocol, lived, and answered everything."""
        return not any(self.counts.values())

    @property
    def sentence(self) -> str:
        """What they did, in words; for clean ones, that they kept to the protocol."""
        found = [f"{number:,} {_words(name, number)}" for name, number in self.counts.items()]
        happened = [
            words for words, number in zip(found, self.counts.values(), strict=True) if number
        ]
        return ", ".join(happened) or "kept to the protocol"

    def document(self) -> dict[str, Any]:
        """As run.json holds it."""
        return asdict(self)

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Conduct:
        """From run.json. Raises KeyError, TypeError or ValueError for a malformed document."""
        known = {name: document[name] for name in cls.__dataclass_fields__ if name in document}
        for name in (*COUNTED, "started", "late", "ended"):
            if type(known.get(name, 0)) is not int:
                raise TypeError(f"clients.{name} is {known[name]!r}")
        known["command"] = tuple(map(str, known.get("command", ())))
        known["software"] = str(known.get("software", ""))
        known["incidents"] = tuple(
            Incident(
                client=int(each["client"]),
                at_s=float(each["at_s"]),
                kind=str(each["kind"]),
                what=str(each["what"]),
            )
            for each in known.get("incidents", ())
        )
        return cls(**known)


COUNTED: Final[tuple[str, ...]] = ("lies", "floods", "hangs", "deaths", "blocked")
"""The fields of `Conduct` that count incidents."""

_SINGULAR: Final = {
    "lies": "lie",
    "floods": "flood",
    "hangs": "hang",
    "deaths": "death",
    "blocked": "blocked operation",
}


def _words(name: str, number: int) -> str:
    if number == 1:
        return _SINGULAR[name]
    return "blocked operations" if name == "blocked" else name
