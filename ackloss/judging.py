"""`ackloss.check`: stored runs judged again."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import AcklossError, HistoryError
from harness.history.documents import RunResult, result_of

if TYPE_CHECKING:
    from harness.history.run_folder import RunDir


def check(paths: Iterable[str | os.PathLike[str]], *, master: str | None = None) -> list[RunResult]:
    """Judge run folders, or all runs of campaign folders, as `ackloss check` does; needs no
    cluster. Writes each run's `result.json` and returns the results in the order given.

    The runs are judged one after another in this process. With `master`, such as `local[*]`, they
    are dealt out by Spark, which needs Java and pays off from about a hundred runs on.

    Raises HistoryError for the first run that cannot be judged, after judging all others.
    """
    runs = [run for path in paths for run in _runs_of(Path(path))]
    errors: list[AcklossError] = []
    if master is None:
        documents = [document for run in runs for document in _judged(run, errors)]
    else:
        from checkers.judging.many_runs import check_runs

        documents = list(check_runs(runs, errors=errors, master=master))
    if errors:
        raise errors[0]
    return [result_of(document) for document in documents]


def _judged(run: RunDir, errors: list[AcklossError]) -> list[dict[str, object]]:
    from checkers.judging.one_run import judge_run

    try:
        return [judge_run(run)]
    except AcklossError as error:
        errors.append(error)
        return []


def _runs_of(path: Path) -> list[RunDir]:
    """The run itself, or all runs of a campaign that still have their history."""
    from harness.campaigns.folder import CampaignDir
    from harness.history.run_folder import RunDir

    campaign = CampaignDir(path)
    if not campaign.exists:
        return [RunDir.open(path)]
    runs = campaign.runs_with_history()
    if not runs:
        raise HistoryError("no run of this campaign has a history to judge", file=str(path))
    return runs
