"""`ackloss.check`: stored runs judged again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.errors import AcklossError
from harness.history.documents import RunResult, result_of

if TYPE_CHECKING:
    from checkers.judging.tasks import Stored


def check(paths: Iterable[str | os.PathLike[str]], *, master: str | None = None) -> list[RunResult]:
    """Judge run folders, or all runs of folders of runs and of campaigns, as `ackloss check` does;
    needs no cluster. A path may be a URL, such as `s3://bucket/folder`. Writes each run's
    `result.json` and returns the results in the order given.

    The runs are judged one after another in this process. With `master`, such as `local[*]`, they
    are distributed by Spark, which needs Java and takes seconds to start: `ackloss check` starts
    it for more than 5,000 runs, and judges fewer by processes of this machine.

    Raises HistoryError for the first run that cannot be judged, after judging all others.
    """
    from harness.campaigns.folder import stored_runs

    runs = [run for path in paths for run in stored_runs(os.fspath(path)).runs]
    errors: list[AcklossError] = []
    if master is None:
        documents = [document for run in runs for document in _judged(run, errors)]
    else:
        from checkers.judging.many_runs import check_runs

        documents = list(check_runs(runs, errors=errors, master=master))
    if errors:
        raise errors[0]
    return [result_of(document) for document in documents]


def _judged(run: Stored, errors: list[AcklossError]) -> list[dict[str, object]]:
    from checkers.judging.tasks import judge_and_write

    try:
        return [judge_and_write(run)]
    except AcklossError as error:
        errors.append(error)
        return []
