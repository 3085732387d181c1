"""Which nodes a fault affects, by the acts that its journal announces.

These are not always the nodes that its step chose: a partition as a bridge cuts links of all nodes
but the chosen one, and one by groups cuts none of a node that is in no group.
"""

from __future__ import annotations

from pathlib import Path

from harness.faults.journal import entries


def affected_nodes(journal: Path) -> dict[str, set[str]]:
    """By fault the nodes that it affects; of a fault that began twice, those of the second time.

    A cut link affects the end that the step chose: peers of an isolated node still reach each
    other. It affects both ends if the step chose both (a ring, groups), or neither (a bridge).
    """
    chosen: dict[str, set[str]] = {}
    affected: dict[str, set[str]] = {}
    for entry in entries(journal):
        match entry:
            case {"type": "step", "fault": fault, "nodes": nodes}:
                chosen[fault], affected[fault] = set(nodes), set()
            case {
                "type": "intent",
                "fault": fault,
                "lever": "net",
                "token": {"node": node, "peers": peers},
            } if fault in affected:
                links = ({node, peer["name"]} for peer in peers)
                affected[fault].update(*(link & chosen[fault] or link for link in links))
            case {"type": "intent", "fault": fault, "token": {"node": node}} if fault in affected:
                affected[fault].update(node.split(","))  # one act may be of several nodes
    return affected
