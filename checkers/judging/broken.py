"""A checker that raises, or whose process dies, makes that run `unknown`, and no other.

What broke the checker may be in the run's Parquet files, so nothing here opens one.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any, Final

from checkers.judging.contract import BrokenCheckerError
from harness import failures
from harness.errors import HistoryError
from harness.history.run_folder import RunDir
from harness.models import LOG, MODELS
from harness.protocols import DOUBTS, UNKNOWN, Facts, Promises

DIED: Final = "the checker's process died, killed or out of memory"


def raised(error: BaseException) -> str:
    """What was raised and where, in one sentence; of a checker with its name."""
    if isinstance(error, BrokenCheckerError):
        return str(error)
    return f"judging raised {_what(error)}"


def broken_by(name: str, error: BaseException) -> BrokenCheckerError:
    """What a checker raised, with its name."""
    return BrokenCheckerError(f"the checker {name!r} raised {_what(error)}")


def _what(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{failures.what(error)}{where}"


def unjudged(why: str, doubt: str = DOUBTS.checker) -> dict[str, Any]:
    """The verdict's part of the result document of what could not be judged."""
    return {
        "verdict": UNKNOWN,
        "reason": why,
        "counter_examples": [],
        "doubts": [doubt],
        "eligible": False,
        "complete": False,
    }


def nameless(run_id: str) -> Facts:
    """Of a run of which nothing else is known."""
    return Facts(run_id=run_id, history=(), reads=(), ends=())


def named_by(rundir: RunDir) -> Facts:
    """What run.json (or else an earlier result) and plan.json say of a run, as far as they can be
    read."""
    run = _document(rundir, rundir.run) or _document(rundir, rundir.result)
    plan = _document(rundir, rundir.plan)
    run_id, name, seed = run.get("run_id"), plan.get("name"), run.get("seed")
    promises = run.get("promises")
    model = promises.get("model") if isinstance(promises, dict) else None
    return Facts(
        run_id=run_id if isinstance(run_id, str) else rundir.run_id,
        folder=rundir.path,
        history=(),
        reads=(),
        ends=(),
        plan=name if isinstance(name, str) else None,
        seed=seed if isinstance(seed, int) else None,
        promises=Promises(model=model if model in MODELS else LOG.name),
        simulated=run.get("simulated") is True,
    )


def _document(rundir: RunDir, path: Path) -> dict[str, Any]:
    try:
        return rundir.read_json(path)
    except HistoryError:
        return {}
