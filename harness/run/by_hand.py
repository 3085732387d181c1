"""Plans with faults that an operator causes: who that is, and where there is none."""

from __future__ import annotations

import os
import select
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Final

from harness.errors import PlanError
from harness.levers.manual import ManualLever, Operator
from harness.run.resolving import ResolvedPlan

_TICK_S: Final = 0.1


@dataclass
class Person(Operator):
    """An operator who causes faults by hand, and reports it: at least one of `folder`, by a file
    that appears there, and `keys`, by Enter at that terminal. `say` prints what is requested, even
    if everything else is quiet."""

    say: Callable[[str], None]
    folder: Path | None = None
    keys: IO[str] | None = None
    _over: threading.Event = field(default_factory=threading.Event)
    _left: bool = False

    def begin(self, faults: Sequence[str]) -> None:
        """Refuse files that are there already: they report what an earlier run requested."""
        self._over.clear()
        self._left = False
        if self.folder is None:
            return
        if not self.folder.is_dir():
            raise PlanError(
                f"--signals: there is no folder {self.folder}", hint="make it, and keep it empty"
            )
        for fault in faults:
            for begun in (True, False):
                file = self._file(fault, begun=begun)
                if file is not None and file.exists():
                    raise PlanError(
                        f"--signals: {file} exists before anything was requested", hint="remove it"
                    )

    def done(self, fault: str, what: str, *, begun: bool, at_most_s: float) -> bool:
        """Ask, and wait for Enter or the file."""
        if begun and self._over.is_set():
            return False
        file = self._file(fault, begun=begun)
        ways = ["press Enter"] if self.keys is not None else []
        ways += [f"make the file {file}"] if file is not None else []
        self._drain()
        self.say(f"OPERATOR, fault {fault!r}: {what}")
        self.say(f"  When it is done (within {at_most_s:g} s): {' or '.join(ways)}")
        deadline = time.monotonic() + at_most_s
        while time.monotonic() < deadline:
            if (file is not None and file.exists()) or self._pressed(_TICK_S):
                return True
            if begun and self._over.is_set():
                self.say(f"  The load is over: fault {fault!r} is not needed any more.")
                return False
            if self._left:
                self.say(f"  No longer waiting for what was requested for fault {fault!r}.")
                return False
        self.say("  It was not reported in time.")
        return False

    def give_up(self) -> None:
        """The load is over."""
        self._over.set()

    def leave(self) -> None:
        """The user has interrupted for the second time."""
        self._left = True

    def _file(self, fault: str, *, begun: bool) -> Path | None:
        if self.folder is None:
            return None
        return self.folder / f"{fault}.{'begun' if begun else 'ended'}"

    def _pressed(self, timeout_s: float) -> bool:
        """Whether Enter was pressed within this time."""
        if self.keys is None:
            time.sleep(timeout_s)
            return False
        if not select.select([self.keys], [], [], timeout_s)[0]:
            return False
        typed = os.read(self.keys.fileno(), 4096)
        if not typed:  # the terminal is gone: only files can report
            self.keys = None
        return b"\n" in typed

    def _drain(self) -> None:
        """Forget what was typed before anything was requested."""
        while self.keys is not None and select.select([self.keys], [], [], 0)[0]:
            if not os.read(self.keys.fileno(), 4096):
                self.keys = None


def with_operator(
    resolved: ResolvedPlan, operator: Operator | None, *, file: str = "plan"
) -> ResolvedPlan:
    """The plan with the operator who causes its faults by hand. Raises PlanError if there are such
    faults and no operator to cause or report them."""
    if not _by_hand(resolved):
        return resolved
    made = replace(resolved, operator=operator)
    try:
        begin_by_hand(made)
    except PlanError as error:
        error.file = error.file or file
        raise
    return made


def begin_by_hand(resolved: ResolvedPlan) -> None:
    """Prepare the operator for the faults of this plan, if some are caused by hand.
    Raises PlanError if there is no operator, or if one is reported already."""
    faults = _by_hand(resolved)
    if not faults:
        return
    if resolved.operator is None:
        raise PlanError(
            f"the fault {faults[0]!r} is made by hand, but there is no terminal here",
            key="faults.nemesis",
            hint="name a folder in which files report what was done: --signals FOLDER",
        )
    resolved.operator.begin(faults)


def refuse_manual(resolved: ResolvedPlan) -> None:
    """Raise PlanError for a fault that is caused by hand, where no operator can be awaited."""
    if faults := _by_hand(resolved):
        raise PlanError(
            f"the fault {faults[0]!r} is made by hand: nobody is waited for here",
            key="faults.nemesis",
            hint="run the plan by `ackloss run`",
        )


def _by_hand(resolved: ResolvedPlan) -> list[str]:
    """The faults that an operator causes."""
    return [
        each.step.id
        for each in resolved.steps
        if each.nemesis is not None
        and any(act.lever == ManualLever.name for act in each.nemesis.requires("any"))
    ]
