"""ackloss from Python: run plans, judge runs, read both as pandas data frames.

    import ackloss

    run = ackloss.run("memory/log", seed=7, set={"workload.rate_per_s": 500})
    run.result.verdict, run.result.rates.loss
    run.writes().groupby("outcome").latency_ms.median()

`run` executes a plan, `check` judges run folders; `load_run`, `load_campaign` and `lake` read what
is stored. Everything that goes wrong raises an `AcklossError`. The protocols that plug-ins inherit
are here too; what else a plug-in needs is in `ackloss.plugins`.

The import is cheap: Spark, Docker, pandas and matplotlib are imported when they are needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from harness import __version__
from harness.errors import (
    AcklossError,
    EnvironmentFailure,
    HarnessFailure,
    HistoryError,
    Interrupted,
    PlanError,
    QueryError,
)

if TYPE_CHECKING:
    from ackloss.session import check, run
    from ackloss.stored import Campaign, Lake, Run, lake, load_campaign, load_run
    from harness.history.documents import RunResult, StoredRun
    from harness.protocols import Checker, Client, Lever, Nemesis, Provider, Target, Workload

__all__ = [
    "AcklossError",
    "Campaign",
    "Checker",
    "Client",
    "EnvironmentFailure",
    "HarnessFailure",
    "HistoryError",
    "Interrupted",
    "Lake",
    "Lever",
    "Nemesis",
    "PlanError",
    "Provider",
    "QueryError",
    "Run",
    "RunResult",
    "StoredRun",
    "Target",
    "Workload",
    "__version__",
    "check",
    "lake",
    "load_campaign",
    "load_run",
    "run",
]

_MODULES = {
    "ackloss.session": ("check", "run"),
    "ackloss.stored": ("Campaign", "Lake", "Run", "lake", "load_campaign", "load_run"),
    "harness.history.documents": ("RunResult", "StoredRun"),
}
"""Where names are; the others are in `harness.protocols`."""


def __getattr__(name: str) -> Any:
    """A name is imported when it is first needed: the command line needs none of them to start."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = next(
        (module for module, names in _MODULES.items() if name in names), "harness.protocols"
    )
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
