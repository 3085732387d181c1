"""The settings of every server as it reports them itself, compared with the requested ones.

`conf` shows what a server has read from zoo.cfg; the command line of its JVM, what else it was
started with. Servers from 3.6 on count their calls of fsync, which shows whether they really call
it.
"""

from __future__ import annotations

import time
from typing import Any, Final

from harness.errors import PlanError
from harness.faults.own_traffic import NoAnswer
from harness.protocols import Cluster, Node
from harness.servers import compare_settings, setting_text, shared_settings
from targets.zookeeper import seeing
from targets.zookeeper.layout import file_settings, flag_settings, flags_of
from targets.zookeeper.plan import ZooKeeperPlan
from targets.zookeeper.versions import release_of

_ASK_S: Final = 5.0
_ONLY_OF_AN_ENSEMBLE: Final = frozenset({"initLimit", "syncLimit"})
_KEYS: Final = {
    "tickTime": "ensemble.tickTime",
    "initLimit": "ensemble.initLimit",
    "syncLimit": "ensemble.syncLimit",
    "forceSync": "ensemble.forceSync",
    "snapCount": "ensemble.snapCount",
}
"""Settings that have their own key in a plan."""


def key_of(name: str) -> str:
    """The key of a plan for a setting."""
    return _KEYS.get(name, f'target.settings."{name}"')


def requested(plan: ZooKeeperPlan) -> dict[str, str]:
    """What every server should use."""
    wanted = {**file_settings(plan), **flag_settings(plan)}
    if len_of_ensemble(plan) == 1:
        wanted = {key: value for key, value in wanted.items() if key not in _ONLY_OF_AN_ENSEMBLE}
    return {key: setting_text(value) for key, value in wanted.items()}


def len_of_ensemble(plan: ZooKeeperPlan) -> int:
    """How many servers there are."""
    return plan.ensemble.servers + plan.ensemble.observers


def effective(cluster: Cluster, plan: ZooKeeperPlan) -> dict[str, Any]:
    """See `harness.protocols.Target.effective`."""
    by_node = {node.name: reported(node) for node in cluster.nodes.values()}
    warnings = compare_settings(requested(plan), by_node, key_of=key_of)
    if release_of(plan.target.version or "").metrics:
        for node in cluster.nodes.values():
            _check_fsync(node, plan)
    else:
        warnings.append("ensemble.forceSync: this version does not count its calls of fsync")
    server = {
        key: value
        for key, value in shared_settings(by_node).items()
        if not key.endswith("Size")  # how much they store is not a setting
    }
    return {"settings": {"server": server}, "features": {}, "warnings": warnings}


def reported(node: Node) -> dict[str, str]:
    """What one server uses. Raises TimeoutError if it does not report it."""
    pid = node.pid()
    flags = flags_of(node.admin(["cat", f"/proc/{pid}/cmdline"]).output)
    try:
        return {
            **flags,
            **seeing.settings_of(seeing.ask_word(node.address, "conf", timeout_s=_ASK_S)),
        }
    except NoAnswer as error:
        raise TimeoutError(f"{node.name} did not report its settings: {error}") from error


def _check_fsync(node: Node, plan: ZooKeeperPlan) -> None:
    """Raise PlanError when a server that was to call fsync has not, or the other way round: every
    server has logged something by now."""
    deadline = time.monotonic() + _ASK_S
    wanted = plan.ensemble.forceSync
    while (calls := fsync_calls(node)) is None or (wanted and not calls):
        if time.monotonic() > deadline:
            raise PlanError(f"{node.name} has called fsync {calls} times", key=key_of("forceSync"))
        time.sleep(0.1)
    if calls and not wanted:
        raise PlanError(f"{node.name} has called fsync {calls} times", key=key_of("forceSync"))


def fsync_calls(node: Node) -> int | None:
    """How many transactions' logs a server has fsynced since it started."""
    try:
        figures = seeing.figures_of(seeing.ask_word(node.address, "mntr", timeout_s=_ASK_S))
    except NoAnswer:
        return None
    count = figures.get("cnt_fsynctime")
    return None if count is None else int(float(count))
