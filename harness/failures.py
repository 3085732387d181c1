"""The border to plug-ins: what they return is checked, what they raise becomes a named failure.

ackloss calls plug-ins, some of which are not its own. A wrong return value is refused where it is
returned, not in a later stage, where it might look as if the system had lost something; and the
reader of a message must know which program to fix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from traceback import walk_tb
from types import FrameType
from typing import TYPE_CHECKING, Any

from harness import registry
from harness.errors import AcklossError, HarnessFailure

if TYPE_CHECKING:
    from pydantic import TypeAdapter

_ONE = {
    "nemeses": "nemesis",
    "workloads": "workload",
    "targets": "target",
    "checkers": "checker",
    "clusters": "kind of cluster",
}
_LONGEST = 300


def validated(who: str, given: object, kind: Any, *, fields: Sequence[str] = ()) -> Any:
    """`given`, which is of this type throughout: also the fields of dataclasses and the items of
    lists. `who` returned it, such as "the target 'kafka': readers()"; `fields` names the items of a
    tuple. Raises HarnessFailure, which says what is wrong where."""
    from pydantic import ValidationError

    try:
        return _adapter(kind).validate_python((given,))[0]
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        (_, *place), wrong = first["loc"], first["msg"].removeprefix("Input ")
        if fields and place and isinstance(place[0], int):
            place[0] = fields[place[0]]
        at = f"{'.'.join(map(str, place))} " if place else ""
        raise HarnessFailure(f"{who} returns {_shown(given)}: {at}{wrong}") from error


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(arbitrary_types_allowed=True, revalidate_instances="always", strict=True)
    return TypeAdapter(tuple[kind], config=config)


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 80 and "\n" not in text else f"a {type(given).__name__}"


def sentence(error: BaseException) -> str:
    """The exception, with the plug-in whose method raised it, or else ackloss itself."""
    who, package, method, where = "ackloss itself", None, "", ""
    for frame, line in walk_tb(error.__traceback__):
        code, of = frame.f_code, str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if name := _plugin_of(frame):
            who, package, method = name, of, code.co_name
        made = code.co_filename.startswith("<")  # by dataclasses, say: it has no lines
        if of == package and not made:  # the plug-in's own code
            where = f" in {method}() ({Path(code.co_filename).name}, line {line})"
    return f"{who} failed{where}: {what(error)}"


def reason(error: BaseException) -> str:
    """An AcklossError in its own words; of anything else, `sentence`."""
    return str(error) if isinstance(error, AcklossError) else sentence(error)


def as_failure(error: Exception) -> AcklossError:
    """An AcklossError as it is; anything else as a failure of the harness."""
    return error if isinstance(error, AcklossError) else HarnessFailure(sentence(error))


def try_all(calls: Iterable[Callable[[], object]]) -> None:
    """Make all of these calls, then raise the first failure of one of them (`as_failure`)."""
    failures = []
    for call in calls:
        try:
            call()
        except Exception as error:
            failures.append(as_failure(error))
    if failures:
        raise failures[0]


def what(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    return f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": ")[:_LONGEST]


def _plugin_of(frame: FrameType) -> str | None:
    """The plug-in of which this is a method."""
    owner = type(frame.f_locals.get("self"))
    return next(
        (
            f"the {_ONE[kind]} {name!r}"
            for kind in registry.KINDS
            for name, plugin in registry.plugins(kind).items()
            if plugin is owner
        ),
        None,
    )
