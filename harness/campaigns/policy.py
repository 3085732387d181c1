"""What a campaign's policy makes of its runs: which cells break it, and so the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.campaigns.plan import Policy
from harness.campaigns.progress import Run


def breaking(policy: Policy, runs: Iterable[Run], cells: Iterable[str]) -> set[str]:
    """The names of those cells that make the exit code 1; none where the policy is kept.

    A cell loses when more than the policy's share of its judged runs are `invalid`: runs that are
    `unknown` neither break a policy nor thin out those that do.
    """
    judged: Mapping[str, list[bool]] = {name: [] for name in cells}
    for run in runs:
        if run.verdict in ("valid", "invalid") and run.cell in judged:
            judged[run.cell].append(run.verdict == "invalid")
    told = {name: sum(each) > policy.share * len(each) for name, each in judged.items() if each}
    lossy = {name for name, is_lossy in told.items() if is_lossy}
    if policy.fail_on == "never" or (policy.fail_on == "all" and len(lossy) < len(told)):
        return set()
    return lossy
