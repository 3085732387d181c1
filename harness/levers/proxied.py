"""Plans with faults of single requests: where their rules are, how unsupported options are refused
when the plan is read, and the proxies beside the nodes.

A proxy is compiled from the sources here (`proxy/`) and the system's own class (`Wire.java`), and
runs only beside nodes of plans that need it.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from harness.errors import PlanError, nearest
from harness.levers.protocol import FOLDER, port_of_proxy
from harness.plan import Plan
from harness.protocols import NODE_DATA, NodeSpec

NEMESIS: Final = "protocol"
JAR: Final = "proxy.jar"
HEAP_MB: Final = 64
"""What a proxy's JVM may use."""
SOURCES: Final = Path(__file__).parent / "proxy"
"""The proxy, whatever the system."""
ANY: Final = "any"


class Rule(NamedTuple):
    """The options of a fault of single requests, and where they are in the plan."""

    key: str
    options: Mapping[str, Any]

    @property
    def apis(self) -> Sequence[str]:
        """What it names, `ANY` if it names nothing."""
        given = self.options.get("api", ANY)
        return [given] if isinstance(given, str) else [str(each) for each in given]

    def refuse(self, reasons: Mapping[str, tuple[str, str]]) -> None:
        """Raise PlanError for the first of these options that it has: what is wrong, what helps."""
        for option, (what, hint) in reasons.items():
            if self.options.get(option):
                raise PlanError(what, key=f"{self.key}.{option}", hint=hint)

    def require_apis(self) -> None:
        """Raise PlanError for an error that is that of any answer: each has its own."""
        if ANY in self.apis:
            raise PlanError(
                "an error is that of an answer, and there is no API",
                key=f"{self.key}.code",
                hint="name the api",
            )


def rules(plan: Plan) -> Iterator[Rule]:
    """The faults of single requests in a plan."""
    return itertools.starmap(Rule, plan.faults_of(NEMESIS))


def proxied(plan: Plan) -> bool:
    """Whether nodes of this plan need proxies."""
    return any(rules(plan))


def check_name(
    name: str, names: Collection[str], *, owner: str, kind: str, key: str, such_as: str
) -> None:
    """Raise PlanError for a name that the system does not have, with the nearest that it has."""
    if name not in names:
        by_lower = {each.lower(): each for each in names}
        near = nearest(name.lower(), list(by_lower))
        hint = f"did you mean {by_lower[near]!r}?" if near else f"such as {such_as}"
        raise PlanError(f"{owner} has no {kind} {name!r}", key=key, hint=hint)


def with_proxy(
    spec: NodeSpec, jar: bytes, *, java: Sequence[str], wire: str, ports: Sequence[int], to: str
) -> NodeSpec:
    """The node with a proxy beside it, in front of ports on which it gets requests at the address
    `to`. `java` starts a JVM, and ends with its class path; `wire` is the class that knows the
    protocol."""
    if not ports:
        return spec
    folder = f"{NODE_DATA}/{FOLDER}"
    *jvm, path = java
    pairs = [f"{port_of_proxy(port)}:{to}:{port}" for port in ports]
    argv = [*jvm, f"{folder}/{JAR}:{path}", "Proxy", folder, wire, *pairs]
    return replace(spec, beside=argv, files={**spec.files, f"{FOLDER}/{JAR}": jar})
