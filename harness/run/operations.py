"""What the scripts of a workload may yield, and what a client may complete it with.

Both are plug-ins, and a typing error in one must not make a run look as if the system had lost
something. So each operation is checked before a client begins it. The interpreter does this itself
on its hot path, and comes here for the messages.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import NoReturn, cast

from harness.errors import HarnessFailure
from harness.models import APPEND, MODELS, MOST_APPENDED, Model
from harness.plan import Plan
from harness.protocols import FAIL, INFO, NULL, OK, Invoke, Script, Workload


@dataclass(frozen=True)
class Rules:
    """What operations of a workload may be."""

    workload: str
    system: str
    model: Model
    partitions: int

    @classmethod
    def of(cls, workload: Workload, plan: Plan) -> Rules:
        """The rules of a plan's workload."""
        model = MODELS[workload.model]
        return cls(plan.workload.name, plan.target.system, model, plan.partitions)

    @property
    def lowest(self) -> int:
        """The least partition that an operation may have: none, but in a log."""
        return 0 if self.model.final_read else NULL

    @property
    def values(self) -> tuple[int, int]:
        """The least and the highest value that a write may have."""
        if APPEND in self.model.writes:
            return 0, MOST_APPENDED
        return NULL + 1, -NULL - 1

    @property
    def places(self) -> Mapping[str, frozenset[int]]:
        """The partitions that an operation may have, by its function: what the loop looks up."""
        allowed = frozenset([self.lowest, *range(self.partitions)])
        return dict.fromkeys(self.model.functions, allowed)

    def scripts(self, make: Callable[[int, int, int, int], Script], plan: Plan) -> list[Script]:
        """The scripts of all processes, by `script` or `final` of the workload."""
        processes = plan.workload.processes
        made = [
            make(process, processes, plan.partitions, plan.seed) for process in range(processes)
        ]
        for script in made:
            if not isinstance(script, Generator):
                self._refuse(f"{_name(make)}() returns {_shown(script)}, not a generator")
        return made

    def first(self, script: Script) -> Invoke:
        """The first operation of a script."""
        try:
            op = next(script)
        except StopIteration:
            self._refuse("a script yields nothing; it begins with `yield invoke(...)`")
        self.check(op)
        return op

    def check(self, op: object) -> None:
        """Raise HarnessFailure for an operation that breaks a rule."""
        if why := self._why_not(op):
            self._refuse(f"a script yields {_written(op):.100}: {why}")

    def _refuse(self, what: str) -> NoReturn:
        """Raise HarnessFailure for what is wrong with a script."""
        raise HarnessFailure(f"the workload {self.workload!r}: {what}")

    def _why_not(self, op: object) -> str | None:
        if not isinstance(op, tuple) or len(op) != 5:
            return "not an operation; use invoke(f, value, partition, key, expected)"
        f, value, partition, key, expected = cast("tuple[object, ...]", op)
        if not isinstance(f, str) or f not in self.model.functions:
            functions = ", ".join(sorted(self.model.functions))
            return f"the model {self.model.name!r} has no function {f!r}; it has: {functions}"
        several = expected if isinstance(expected, tuple) else (expected,)
        parts = {"value": (value,), "partition": (partition,), "expected": several}
        for part, numbers in parts.items():
            for number in numbers:
                if not isinstance(number, int) or not NULL <= number < -NULL:
                    return f"its {part} is {number!r:.40}, not an integer of 64 bits"
        if value == NULL and f in self.model.writes:
            return "a write has a value, unique in the run"
        least, most = self.values
        if f in self.model.writes and not least <= cast("int", value) <= most:
            return f"its value is {value}; what is appended is 0 to {most}"
        if not self.lowest <= cast("int", partition) < self.partitions:
            given = "no partition" if partition == NULL else f"the partition {partition}"
            return f"it has {given}; there are 0 to {self.partitions - 1}"
        return None if key is None or isinstance(key, str) else f"its key is {key!r:.40}, not text"


def check_completion(ended: object, system: str) -> None:
    """Raise HarnessFailure if what a client returns is not a completion."""
    if why := _no_completion(ended):
        raise HarnessFailure(
            f"a client of the target {system!r} completes an operation with {ended!r:.100}: {why}"
        )


def _no_completion(ended: object) -> str | None:
    if not isinstance(ended, tuple) or len(ended) != 5:
        return "not a completion; use completion(type, offset, error, node, result)"
    type_, offset, error, node, result = cast("tuple[object, ...]", ended)
    if type_ not in (OK, FAIL, INFO):
        return f"its type is {type_!r}, not ok, fail or info"
    for name, text in {"error": error, "node": node}.items():
        if not (text is None or isinstance(text, str)):
            return f"its {name} is {text!r:.40}, not text"
    numbers = {"offset": (offset,), "result": result if isinstance(result, tuple) else (result,)}
    for name, given in numbers.items():
        for number in given:
            if not (number is None or (isinstance(number, int) and NULL <= number < -NULL)):
                return f"its {name} is {number!r:.40}, not an integer of 64 bits"
    return None


def _written(op: object) -> str:
    """An operation as a script may have written it."""
    if not isinstance(op, tuple) or len(op) != 5:
        return repr(op)
    parts = zip(("f", "value", "partition", "key", "expected"), op, strict=True)
    given = [f"{name}={part!r}" for name, part in parts if part is not None and part != NULL]
    return f"invoke({', '.join(given)})"


def _name(make: Callable[..., object]) -> str:
    return getattr(make, "__name__", "script")


def _shown(thing: object) -> str:
    return "None" if thing is None else f"a {type(thing).__name__}"
