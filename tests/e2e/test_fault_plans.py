"""Every plan in plans/faults/, versions/, zookeeper/, etcd/, groups/, transactions/, claims/ and
track-record/, and the one of twelve cells, has the verdict that it expects, with all its faults
proven.
`make e2e` runs all of them, `make test` one, shortened.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from harness.plan import load_plan
from tests.fixtures.budget import FULL
from tests.fixtures.machine import result_of

ROOT = Path(__file__).parents[2]
CHOICE: dict[str, tuple[str, ...]] = {
    "etcd/stale-reads": ("workload.duration_s=13", "faults.0.at_s=2", "faults.0.for_s=6"),
    "galera/list-append-default": ("target.nodes=1", "workload.duration_s=7", "faults.0.at_s=2"),
    "nats/power-loss-all": ("workload.duration_s=16", "faults.0.at_s=3", "faults.0.for_s=1"),
    "postgresql/list-append-read-committed": ("workload.duration_s=7", "faults.0.at_s=2"),
    "rabbitmq/kill-leader-quorum": (
        *("target.nodes=1", "workload.rate_per_s=20", "workload.duration_s=12"),
        *("faults.0.at_s=2", "faults.0.for_s=2"),
    ),
    "redis/restart-quickly": (),
}
"""How `make test` shortens the plans that it runs; other files show the rest in less time. Galera
and RabbitMQ have one server: three copy each other's data in a minute, or boot in two beside other
tests, and starve others' loads."""
MAY_STARVE = {"rabbitmq/kill-leader-quorum"}
"""Servers that take a processor to boot again, under the load: where this machine could not make it
then, everything else has to be as expected. What is found is found then too, so only a plan that
finds nothing has to say so."""
FOLDERS = (
    *("faults", "versions", "zookeeper", "etcd", "groups", "transactions", "track-record"),
    *("claims", "galera", "nats", "postgresql", "rabbitmq", "redis"),
)
STOPS, GOES_ON = {"minority-stops", "four-of-seven-servers"}, {"majority-goes-on", "observers"}
"""Plans that claim more than that nothing is lost: that nothing is acknowledged while there is no
majority, and then writes resume; or that they go on."""
SWAPPED = {"swapped": True, "swapped-idempotent": False, "swapped-one-in-flight": True}
"""Whether the log has records in another order than that of their sending."""
UNACKNOWLEDGED: dict[str, tuple[set[str], set[str] | None] | None] = {
    "faults/unacknowledged-count": None,
    "faults/unacknowledged-java": ({"REQUEST_TIMED_OUT"}, {"NETWORK_EXCEPTION"}),
    "faults/unacknowledged-reset": ({"_MSG_TIMED_OUT"}, set()),
    "zookeeper/unacknowledged-count": None,
    "zookeeper/unacknowledged-reset": ({"ConnectionLoss"}, None),
}
"""The errors of writes whose answers a proxy keeps back, and others that there may be (`None`: any;
Java reports at times how a last attempt ended); `None` where it only counts them. Each time without
containers: test_lost_answers; against servers of this machine: test_proxy_on_a_broker and
test_zookeeper_proxy."""
RUN = ""
SKIPS, PHANTOMS = {"skipped"}, {"phantoms"}
LOST_COMMITS, ZOMBIES = {"lost_commits"}, {"zombie_commits", "commits_back"}
LOST = {"lost"}
LOSE = ("unclean-1-1", "unclean-1-all", "unclean-2-1", "unclean-3-1", "clean-2-1", "clean-3-1")
BROKEN = {"torn-transaction", "lost-write", "lost-after-poll", "unseen", "inconsistent-offsets"}
FINDS = {
    "c12-new-disk-static": {RUN: {"epoch_back"}},
    "coordinator-unclean": {"range": LOST_COMMITS, "server": LOST_COMMITS},
    "group-crash": {"before": SKIPS, "server-before": SKIPS},
    "group-java": {"before": SKIPS, "server-before": SKIPS},
    "group-kafka-python": {"auto-librdkafka": SKIPS, "before": SKIPS},
    "group-manual": {"before": SKIPS},
    "group-phantoms": dict.fromkeys(("unclean", "unclean-server", "unclean-python"), PHANTOMS),
    "group-reset": {"latest": SKIPS},
    "group-zombie-commits": dict.fromkeys(("range", "server", "python"), ZOMBIES),
    "isr-cells": dict.fromkeys(LOSE, LOST),
    "list-append-default": {RUN: {"G-single", "internal", "lost-update"}},
    "list-append-read-committed": {RUN: {"G-single"}},
    "list-append-repeatable-read": {RUN: {"G2-item"}},
    "offsets-after": {RUN: {"output-without-offsets"}},
    "offsets-before": {RUN: {"offsets-without-output"}},
    "transactions-java-unclean": {RUN: BROKEN},
    "transactions-unclean": {RUN: BROKEN},
}
"""By plan and cell (the run itself: `RUN`): the counter-examples of which it finds one at least.
Every other cell is a control."""
PLANS = [path for of in FOLDERS for path in sorted((ROOT / "plans" / of).glob("*.toml"))]
PLANS.append(ROOT / "plans" / "isr-cells.toml")

pytestmark = [pytest.mark.e2e, pytest.mark.docker]


def named(path: Path) -> str:
    """Systems have plans of the same name."""
    return f"{path.parent.name}/{path.stem}"


def test_a_plan_is_valid_and_has_a_description() -> None:
    for path in PLANS:
        plan = load_plan(path)
        assert plan.name == path.stem
        assert plan.about


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=[pytest.mark.full] * (named(path) not in CHOICE)) for path in PLANS],
    ids=lambda path: named(path),
)
def test_a_plan_has_the_verdict_that_it_expects(path: Path, tmp_path: Path) -> None:
    # Some plans show that a version does not support a setting.
    sets = () if FULL else CHOICE[named(path)]
    result = result_of(path, tmp_path, *sets, words=("--force",))
    counts, proven = result["counts"], [_counts(fault) for fault in result["faults"]]
    found = ", ".join(f"{n:,} {name}" for name, n in counts.items() if n)
    print(f"{path.stem}: {result['verdict']}, {found}; {sum(proven)} of {len(proven)} proven")
    assert proven
    assert all(proven), result["faults"]
    if (expect := load_plan(path).expect) is not None:
        if not FULL and named(path) in MAY_STARVE and result["doubts"] == ["starved"]:
            assert counts["acknowledged"] > 0 == counts["lost"] == counts["missing"]
        else:
            assert result["verdict"] == expect, result["reason"]
    _check_cells(path.stem, result)
    if path.stem in SWAPPED:
        (order,) = (each for each in result["checks"] if each["name"] == "order")
        assert (order["counts"]["swapped"] > 0) == SWAPPED[path.stem], order["counts"]
    first = result["faults"][0]
    if named(path) in UNACKNOWLEDGED:
        page = next(tmp_path.glob("*/report.html")).read_text()
        _check_unacknowledged(named(path), result, page)
    if path.stem == "clock-retention":
        _check_clocks(tmp_path, result)
    if path.stem in STOPS:
        assert (first["ops_acknowledged"], result["availability"]["recovered"]) == (0, True)
    if path.stem in GOES_ON:
        assert first["ops_acknowledged"] > first["ops_begun"] / 2, first


def _counts(fault: dict[str, Any]) -> bool:
    """Whether it was in force, or is a control: one that changes nothing, and met requests."""
    return bool(fault["proven"] or (fault["control"] and fault["touched"]))


def _check_unacknowledged(plan: str, result: dict[str, Any], page: str) -> None:
    """Writes whose answers were cut off are found all the same; where writes are only counted, all
    are acknowledged."""
    counts, rates, (fault,) = result["counts"], result["rates"], result["faults"]
    assert fault["touched"] > 0
    if (errors := UNACKNOWLEDGED[plan]) is None:
        assert counts["acknowledged"] == counts["attempted"] > 0
        assert counts["unacknowledged_found"] == rates["unacknowledged_success"] == 0
        return
    error, others = errors
    assert error <= set(result["errors"]["unknown"])
    assert others is None or set(result["errors"]["unknown"]) <= error | others
    assert rates["unacknowledged_success"] > 0
    assert "unacknowledged success" in page
    if plan.startswith("zookeeper"):
        assert counts["unacknowledged_found"] == counts["recovered"] >= fault["touched"]
    else:
        assert counts["unknown_found"] > 0


def _check_clocks(out: Path, result: dict[str, Any]) -> None:
    """A jump beyond the retention time deletes what was acknowledged before it, hundreds of writes
    or few on a busy machine; and it moves the clock of one broker only, as the logs show."""
    (folder,), ended = out.iterdir(), datetime.now(UTC)
    counts, (window,) = result["counts"], result["faults"]
    deleted = [
        f"{log.parent.name} {line[:240]}"
        for log in sorted(folder.glob("nodes/b*/server.log"))
        for line in log.read_text().splitlines()
        if "ackloss-0" in line
    ]
    assert counts["lost"] == counts["deleted"] > 0, "\n".join(deleted)
    (met,) = window["nodes"]
    for node in ("b1", "b2", "b3", "c1"):
        text = (folder / "nodes" / node / "server.log").read_text()
        stamps = re.findall(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", text, re.MULTILINE)
        latest = max(datetime.fromisoformat(stamp).replace(tzinfo=UTC) for stamp in stamps)
        ahead_s = (latest - ended).total_seconds()
        assert 6900 < ahead_s < 7200 if node == met else ahead_s <= 0, (node, ahead_s)


def _check_cells(plan: str, result: dict[str, Any]) -> None:
    """Each cell has its own verdict, and what was found is what the plan is there to find."""
    finds = FINDS.get(plan, {})
    found = {cell["name"]: cell for cell in result.get("cells", ())} or {RUN: result}
    for name, cell in found.items():
        expect = cell.get("expect")
        assert expect in (None, cell["verdict"]), (plan, name, cell["verdict"], cell["reason"])
        names = set(cell["counter_examples"])
        assert name not in finds or finds[name] & names, (plan, name, names)
    assert set(finds) <= set(found), (plan, set(found))


@pytest.mark.parametrize("plan", FINDS)
def test_what_plans_find_is_named_for_cells_that_they_have(plan: str) -> None:
    (path,) = [path for path in PLANS if path.stem == plan]
    cells = {cell.name: cell.expect for cell in load_plan(path).cells} or {RUN: "invalid"}
    assert {name for name, expect in cells.items() if expect == "invalid"} == set(FINDS[plan])


def test_a_control_that_finds_something_is_no_success() -> None:
    """Once the verdict of the run was compared, and cells were not."""
    skipped = {"verdict": "invalid", "counter_examples": ["skipped"]}
    cells = [
        {"name": "before", "expect": "invalid", **skipped},
        {"name": "server-before", "expect": "invalid", **skipped},
        {"name": "after", "expect": "valid", **skipped, "reason": ""},
    ]
    _check_cells("group-crash", {"cells": cells[:2]})
    with pytest.raises(AssertionError, match="after"):
        _check_cells("group-crash", {"cells": cells})
    other = [{**cells[0], "counter_examples": ["phantoms"]}, cells[1]]
    with pytest.raises(AssertionError, match="phantoms"):
        _check_cells("group-crash", {"cells": other})
