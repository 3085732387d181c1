"""What an unexpected exception is, in one sentence: whose code raised it, and where.

ackloss calls plug-ins, some of which are not its own. The reader of the message must know which
program to fix.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from harness import registry
from harness.errors import AcklossError, HarnessFailure

_ONE = {
    "nemeses": "nemesis",
    "workloads": "workload",
    "targets": "target",
    "checkers": "checker",
    "clusters": "kind of cluster",
}
_LONGEST = 300


def sentence(error: BaseException) -> str:
    """The exception, with the plug-in whose method raised it, or else ackloss itself."""
    who, package, method, where = "ackloss itself", None, "", ""
    for trace in _traces(error.__traceback__):
        if name := _plugin_of(trace):
            who, package, method = name, _package(trace), trace.tb_frame.f_code.co_name
        code = trace.tb_frame.f_code
        made = code.co_filename.startswith("<")  # by dataclasses, say: it has no lines
        if _package(trace) == package and not made:  # the plug-in's own code
            where = f" in {method}() ({Path(code.co_filename).name}, line {trace.tb_lineno})"
    return f"{who} failed{where}: {what(error)}"


def reason(error: BaseException) -> str:
    """An AcklossError in its own words; of anything else, `sentence`."""
    return str(error) if isinstance(error, AcklossError) else sentence(error)


def as_failure(error: Exception) -> AcklossError:
    """An AcklossError as it is; anything else as a failure of the harness."""
    return error if isinstance(error, AcklossError) else HarnessFailure(sentence(error))


def what(error: BaseException) -> str:
    """The exception's type and the first line of its message."""
    return f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": ")[:_LONGEST]


def _traces(trace: TracebackType | None) -> list[TracebackType]:
    traces = []
    while trace is not None:
        traces.append(trace)
        trace = trace.tb_next
    return traces


def _plugin_of(trace: TracebackType) -> str | None:
    """The plug-in of which this is a method."""
    owner = type(trace.tb_frame.f_locals.get("self"))
    return next(
        (
            f"the {_ONE[kind]} {name!r}"
            for kind in registry.KINDS
            for name, plugin in registry.plugins(kind).items()
            if plugin is owner
        ),
        None,
    )


def _package(trace: TracebackType) -> str:
    return str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
