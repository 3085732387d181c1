"""Faults are applied, proven and undone here, in one place for every family.

Each act is journalled on disk before it happens. It is probed right after it is applied, again
right before it is undone (so that it held for its complete window), and once more when it is
undone. All acts of one fault are done in parallel: nodes that die a second apart are another
experiment.

Right after the acts the system may not have spoken yet, so the first probe shows the mechanism
alone. By the probe before the undo, the fault must have met something of the system (`Proof.met`)
through at least one of its acts: two followers may have nothing to say to each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, NamedTuple, TypeVar

from harness.errors import AcklossError, EnvironmentFailure, HarnessFailure
from harness.failures import as_failure, reason, try_all
from harness.faults import selectors
from harness.faults.journal import Journal
from harness.protocols import Act, Lever, Nemesis, Node, Proof, Select, UndoRecord, Vocabulary

# The acts of a nemesis, as far as they can be refused before one is journalled: a plug-in that
# returns something else is named, with what it returned. Whether they can be done on a cluster is
# answered by its levers, so a nemesis runs no command.

_AT_ONCE: Final = 12
"""Nodes that are queried at the same time."""


def missing_levers(nemesis: Nemesis, offered: Collection[str]) -> list[str]:
    """The levers that a fault needs and that are not among those offered."""
    needed = dict.fromkeys(act.lever for act in nemesis.requires("any"))
    return [lever for lever in needed if lever not in offered]


def unavailable(
    nemesis: Nemesis, nodes: Mapping[str, Node], levers: Mapping[str, Lever[Any]]
) -> str | None:
    """None, or why this fault cannot be made on these nodes with these levers."""
    if missing := missing_levers(nemesis, levers):
        offered = ", ".join(levers) or "none"
        return f"the cluster does not offer the lever {missing[0]!r}; it offers {offered}"

    def on(node: Node) -> str | None:
        for act in nemesis.requires(node.name):
            why = node.why_not(act.record) or levers[act.lever].unavailable(node, act.record)
            if why:
                return why
        return None

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return next((why for why in pool.map(on, nodes.values()) if why), None)


def chosen(
    nemesis: Nemesis,
    nodes: Sequence[Node],
    select: Select,
    *,
    levers: Mapping[str, Lever[Any]],
    among: Collection[str],
    vocabulary: Vocabulary,
) -> list[Act]:
    """The acts of a fault on these nodes, `among` all that there are. Raises HarnessFailure for a
    selector that the target does not have, and for acts that no lever here can do."""
    name = f"the nemesis {nemesis.plugin!r}"

    def selected(text: str) -> Sequence[Node]:
        try:
            selectors.check(text, vocabulary, key="")
        except AcklossError as error:
            raise HarnessFailure(f"{name}: select(): {error.what}", hint=error.hint) from error
        return select(text)

    acts = list(nemesis.acts(nodes, selected))
    for act in acts:
        why = None
        if not isinstance(act, Act):
            why = f"a {type(act).__name__} is not an Act(lever, record)"
        elif act.lever not in levers:
            offered = ", ".join(levers) or "none"
            why = f"there is no lever {act.lever!r} here; there are: {offered}"
        elif strange := [each for each in act.record.node.split(",") if each not in among]:
            why = f"there is no node {strange[0]!r}"
        if why:
            raise HarnessFailure(f"{name}: acts(): {why}")
    return acts


T = TypeVar("T")

NOTHING_MET = "it did not affect the system"
NO_ACTS = "its nemesis chose no act: nothing was changed"

Note = Callable[[str, str, str, str, str], None]
"""Records a row of the nemesis in the history: type, nemesis, id of the fault, nodes, and what is
done (inject or heal)."""


class _Announced(NamedTuple):
    """An act whose intent is in the journal under the number `n`."""

    n: int
    lever: Lever[Any]
    record: UndoRecord


@dataclass
class _Active:
    nemesis: str
    acts: list[_Announced]
    met: int | None = None
    shown: int = 0
    """Of how many acts the first proof is in the journal."""

    @property
    def nodes(self) -> str:
        return ",".join(act.record.node for act in self.acts)


@dataclass
class Faults:
    """The faults of one run. `note` puts them into the history; `seed` goes into every undo record,
    for what a lever draws at random. `in_order`: acts of one fault are one after the other and not
    in parallel, since threads would be in any order; where an act takes no time, as in a
    simulation. All methods are thread-safe."""

    levers: Mapping[str, Lever[Any]]
    journal: Journal
    note: Note = lambda *_: None
    seed: int = 0
    in_order: bool = False
    active: dict[str, _Active] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def inject(self, fault: str, nemesis: str, acts: Sequence[Act]) -> int | None:
        """Apply the acts of a fault and prove them. A lever's failure is journalled, not raised:
        the fault is then unproven, and what was begun is undone with the rest. Returns when the
        acts were applied, before they were proven, on the journal's clock; None: none was."""
        with self._lock:
            self.active[fault] = _Active(nemesis, [])
            on_ns = self.add(fault, acts)
        self.prove(fault)
        return on_ns

    def add(self, fault: str, acts: Sequence[Act], *, nemesis: str = "") -> int | None:
        """Apply acts of a fault, perhaps after others of it, and do not prove them yet."""
        on_ns = None
        with self._lock:
            begun = []
            for act in acts:
                lever = self.levers[act.lever]
                record = announced(lever, act, fault=fault, seed=self.seed)
                n = self.journal.intent(fault=fault, lever=act.lever, record=record)
                begun.append(_Announced(n, lever, record))
            active = self.active.setdefault(fault, _Active(nemesis, []))
            first, active.acts = not active.acts, [*active.acts, *begun]
            nodes = ",".join(act.record.node for act in begun)
            stays = any(act.record.permanent for act in begun)  # it may take long to apply
            self.note("invoke", active.nemesis, fault, nodes, "inject")
            if first and stays:
                on_ns = self.journal.write("on", fault=fault)
            failures = self._all([partial(self._do, "apply", act) for act in begun])
            if first and not stays and not all(failures):  # at least one act did not fail
                on_ns = self.journal.write("on", fault=fault)
            self.note("info", active.nemesis, fault, nodes, "inject")
        return on_ns

    def prove(self, fault: str) -> None:
        """Probe those acts of a fault that were applied since this was last done."""
        active = self.active[fault]
        acts, active.shown = active.acts[active.shown :], len(active.acts)
        active.met = self._prove(fault, acts, phase="applied", applied=True, so_far=active.met)

    def heal(self, fault: str) -> None:
        """Undo a fault; nothing when it is not in force. Tries every act, then raises the first
        failure; what could not be undone stays active."""
        with self._lock:
            active = self.active.get(fault)
            if active is None:
                return
            with suppress(EnvironmentFailure):  # a full disk must not prevent the undo
                self._prove(fault, active.acts, phase="held", applied=True, so_far=active.met)
            self.note("invoke", active.nemesis, fault, active.nodes, "heal")
            failures = self._all([partial(self._do, "undo", act) for act in active.acts])
            self.note("info", active.nemesis, fault, active.nodes, "heal")
            if any(failures):
                raise next(failure for failure in failures if failure)
            del self.active[fault]
            self.journal.write("healed", fault=fault)
        self._prove(fault, active.acts, phase="undone", applied=False)

    def heal_all(self) -> None:
        """Undo every fault, the latest first; one that fails does not stop the others."""
        try_all(partial(self.heal, fault) for fault in reversed(list(self.active)))

    def give_up_waiting(self) -> None:
        """The load is over: no lever waits any longer for a fault to begin."""
        for lever in self.levers.values():
            lever.give_up()

    def _do(self, what: Literal["apply", "undo"], act: _Announced) -> AcklossError | None:
        """Apply or undo one act and journal it; a failure is returned, not raised, whatever raised
        it: a lever's own mistake, or a library that it uses."""
        try:
            getattr(act.lever, what)(act.record)
        except Exception as error:
            failed = as_failure(error)
            self.journal.write("failed", n=act.n, what=what, error=str(failed))
            return failed
        self.journal.write("done" if what == "apply" else "undone", n=act.n)
        return None

    def _all(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        return [call() for call in calls] if self.in_order else _in_parallel(calls)

    def _prove(
        self,
        fault: str,
        acts: Sequence[_Announced],
        *,
        phase: str,
        applied: bool,
        so_far: int | None = None,
    ) -> int | None:
        """Probe every act in parallel and journal the proofs. Returns how much of the system was
        met: at least `so_far`, by an earlier probe."""
        proofs = self._all([partial(_probe, act, applied=applied) for act in acts])
        met = _met([(act.lever.name, proof) for act, proof in zip(acts, proofs, strict=True)])
        met = max((each for each in (met, so_far) if each is not None), default=None)
        evidence = [sentence for proof in proofs for sentence in proof.evidence]
        evidence += [] if acts else [NO_ACTS]
        missed = phase == "held" and met == 0
        claimed = bool(proofs) and all(proof.proven or proof.claimed for proof in proofs)
        self.journal.write(
            "proof",
            fault=fault,
            phase=phase,
            proven=bool(proofs) and all(proof.proven for proof in proofs) and not missed,
            evidence=[*evidence, *([NOTHING_MET] if missed else [])],
            met=met,
            **({"claimed": claimed} if any(proof.claimed for proof in proofs) else {}),
        )
        return met


def announced(lever: Lever[Any], act: Act, *, fault: str, seed: int) -> UndoRecord:
    """The undo record of an act as it is journalled: with its fault, the plan's seed and the prior
    state, where the lever captures it."""
    if not isinstance(act.record, lever.record_type):
        raise HarnessFailure(
            f"the lever {lever.name!r} takes a {lever.record_type.__name__}, "
            f"not a {type(act.record).__name__}"
        )
    captured: UndoRecord = lever.capture_prior_state(replace(act.record, fault=fault, seed=seed))
    return captured


def _met(proofs: Sequence[tuple[str, Proof]]) -> int | None:
    """How much of the system a fault has met. Acts of one lever add up; of several levers, each
    with its own unit, the smallest counts. None when no lever counts it."""
    sums: dict[str, int] = {}
    for lever, proof in proofs:
        if proof.met is not None:
            sums[lever] = sums.get(lever, 0) + proof.met
    return min(sums.values(), default=None)


def _probe(act: _Announced, *, applied: bool) -> Proof:
    """A lever's proof; a probe that fails has seen nothing."""
    try:
        return act.lever.probe(act.record, applied=applied)
    except Exception as error:  # it must not prevent the undo
        return Proof(False, [f"the probe failed: {reason(error)}"])


def _in_parallel(calls: Sequence[Callable[[], T]]) -> list[T]:
    with ThreadPoolExecutor(max_workers=max(1, len(calls))) as pool:
        futures = [pool.submit(call) for call in calls]
    return [future.result() for future in futures]
