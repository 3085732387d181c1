"""Applying, proving and undoing faults: the one place, for every family.

Each act is journalled on disk before it happens, probed once it did, probed again just before it is
undone (so that it held for its whole window) and once more when it is undone. Acts of one fault are
done all at once: nodes that die a second apart are another experiment.

Right after the acts the system may not have spoken yet, so that probe shows the mechanism alone.
By the one before they are undone the fault must have met something of the system (`Proof.met`),
through one of its acts at least: two followers may have nothing to say to each other.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from harness.errors import AcklossError, EnvironmentFailure
from harness.faults.journal import Journal
from harness.protocols import Act, CapturesPriorState, Lever, Proof, Token

T = TypeVar("T")

NOTHING_MET = "nothing of the system met it"

Note = Callable[[str, str, str, str, str], None]
"""Records a row of the nemesis: type, nemesis, id of the fault, nodes, what (inject|heal)."""


@dataclass
class _Active:
    nemesis: str
    acts: list[tuple[int, Lever, Token]]
    met: int | None = None

    @property
    def nodes(self) -> str:
        return ",".join(token["node"] for _, _, token in self.acts)


@dataclass
class Faults:
    """The faults of one run. `note` puts them into the history, `seed` goes into every token for
    what a lever draws; all methods are thread-safe."""

    levers: Mapping[str, Lever]
    journal: Journal
    note: Note = lambda *_: None
    seed: int = 0
    active: dict[str, _Active] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def inject(self, fault: str, nemesis: str, acts: Sequence[Act]) -> None:
        """Apply a fault's acts and prove them. A lever's failure is journalled, not raised: the
        fault is then unproven, and what was begun is undone with the rest."""
        with self._lock:
            begun = [self._announce(fault, act) for act in acts]
            active = self.active[fault] = _Active(nemesis, begun)
            self.note("invoke", nemesis, fault, active.nodes, "inject")
            _at_once([partial(self._apply, n, lever, token) for n, lever, token in begun])
            self.journal.write("on", fault=fault)
            self.note("info", nemesis, fault, active.nodes, "inject")
        active.met = self._prove(fault, begun, phase="applied", applied=True)

    def heal(self, fault: str) -> None:
        """Undo a fault; nothing when it is not in force. Raises the first failure after having
        tried every act; what could not be undone stays active."""
        with self._lock:
            active = self.active.get(fault)
            if active is None:
                return
            with suppress(EnvironmentFailure):  # a full disk must not keep it from being undone
                self._prove(fault, active.acts, phase="held", applied=True, so_far=active.met)
            self.note("invoke", active.nemesis, fault, active.nodes, "heal")
            failures = _at_once([partial(self._undo, *act) for act in active.acts])
            self.note("info", active.nemesis, fault, active.nodes, "heal")
            if any(failures):
                raise next(failure for failure in failures if failure)
            del self.active[fault]
            self.journal.write("healed", fault=fault)
        self._prove(fault, active.acts, phase="undone", applied=False)

    def heal_all(self) -> None:
        """Undo every fault, the latest first; one that fails does not stop the others."""
        failures = []
        for fault in reversed(list(self.active)):
            try:
                self.heal(fault)
            except AcklossError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def _announce(self, fault: str, act: Act) -> tuple[int, Lever, Token]:
        lever = self.levers[act.lever]
        token = looked(lever, {**act.token, "fault": fault, "seed": self.seed})
        n = self.journal.intent(fault=fault, lever=act.lever, token=token)
        return n, lever, token

    def _apply(self, n: int, lever: Lever, token: Token) -> AcklossError | None:
        return self._do("apply", "done", n, lever.apply, token)

    def _undo(self, n: int, lever: Lever, token: Token) -> AcklossError | None:
        return self._do("undo", "undone", n, lever.undo, token)

    def _do(
        self, what: str, done: str, n: int, act: Callable[[Token], None], token: Token
    ) -> AcklossError | None:
        """Apply or undo one act and journal it; what failed is returned, not raised."""
        try:
            act(token)
        except AcklossError as error:
            self.journal.write("failed", n=n, what=what, error=str(error))
            return error
        self.journal.write(done, n=n)
        return None

    def _prove(
        self,
        fault: str,
        acts: Sequence[tuple[int, Lever, Token]],
        *,
        phase: str,
        applied: bool,
        so_far: int | None = None,
    ) -> int | None:
        """Probe every act at once and journal what they say; returns what was met, `so_far` by an
        earlier probe at least."""
        proofs = _at_once(
            [partial(_probe, lever, token, applied=applied) for _, lever, token in acts]
        )
        met = _met([(lever.name, proof) for (_, lever, _), proof in zip(acts, proofs, strict=True)])
        met = max((each for each in (met, so_far) if each is not None), default=None)
        evidence = [sentence for proof in proofs for sentence in proof.evidence]
        missed = phase == "held" and met == 0
        self.journal.write(
            "proof",
            fault=fault,
            phase=phase,
            proven=bool(proofs) and all(proof.proven for proof in proofs) and not missed,
            evidence=[*evidence, *([NOTHING_MET] if missed else [])],
            met=met,
        )
        return met


def _met(proofs: Sequence[tuple[str, Proof]]) -> int | None:
    """How much of the system a fault met through all its acts: where it has several levers, each in
    its own unit, what the least of them met. Null when none of them counts that."""
    sums: dict[str, int] = {}
    for lever, proof in proofs:
        if proof.met is not None:
            sums[lever] = sums.get(lever, 0) + proof.met
    return min(sums.values(), default=None)


def looked(lever: Lever, token: Token) -> Token:
    """The token as it is journalled: with what the lever found, if it is one that looks first."""
    return lever.look(token) if isinstance(lever, CapturesPriorState) else token


def _probe(lever: Lever, token: Token, *, applied: bool) -> Proof:
    """A lever's proof; one that cannot look has seen nothing."""
    try:
        return lever.probe(token, applied=applied)
    except AcklossError as error:
        return Proof(False, [f"it could not be seen: {error}"])


def _at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    with ThreadPoolExecutor(max_workers=max(1, len(calls))) as pool:
        futures = [pool.submit(call) for call in calls]
    return [future.result() for future in futures]
