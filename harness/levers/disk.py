"""The disk lever: damages what a node has stored, as a lost disk or a lost power supply would.

The process is killed first (unless the damage is to happen under it), then the files are changed;
undoing starts the process again. What was deleted is not brought back: its loss is the fault. What
was on the disk before, and what was to be changed, is kept in a record of ours in the node's data
folder, `ackloss-disk/FAULT.json`, written before the first change: so a probe in any process can
compare, a second `apply` does nothing more, and `undo` removes it.

Token: {"node", "form": "wipe", "folders": ["data/[!_]*-[0-9]*"], "signal": "KILL", "pid": 17,
"alive": false} and the form's own options; `seed` is the plan's. A null pid: the process was dead
before, and stays so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from harness.errors import HarnessFailure
from harness.levers.commands import must
from harness.levers.disk_cutting import Change, planned
from harness.levers.process import ProcessLever
from harness.protocols import NODE_DATA, Node, Proof, Token

TOOLS = ("find", "truncate", "dd", "df", "rm", "sh", "chmod", "setpriv")
"""What `admin` must have for this lever, the read-only and the full one."""

_RECORDS = "ackloss-disk"
_FLIP = 'printf %b "$1" | dd of="$2" bs=1 seek="$3" conv=notrunc status=none'


@dataclass(frozen=True)
class DiskLever:
    """Deletes, cuts or changes files of a node whose process it has killed."""

    nodes: Mapping[str, Node]
    name: ClassVar[str] = "disk"

    def apply(self, token: Token) -> None:
        """Kill the process, note what is there, change it. Applied before: only the first."""
        node = self.nodes[token["node"]]
        if not token["alive"]:
            ProcessLever(self.nodes).apply(token)
            if node.process().running:
                raise HarnessFailure(f"{node.name}: its process still runs: files left alone")
        if _record(node, token["fault"]) is not None:
            return
        sizes = _sizes(node)
        try:
            changes = planned(token, sizes, lambda path: _read(node, path))
        except ValueError as error:
            raise HarnessFailure(f"{node.name}: {error}") from error
        record = {"before": sizes, "changes": [asdict(change) for change in changes]}
        node.put({_path(token["fault"]): json.dumps(record).encode()})
        for change in changes:
            _make(node, change, sizes.get(change.path, 0))

    def undo(self, token: Token) -> None:
        """Start the process again, if it was running before, and remove our record."""
        node = self.nodes[token["node"]]
        if token["pid"] is not None:
            ProcessLever(self.nodes).undo(token)
        must(node, ["rm", "-f", "--", f"{NODE_DATA}/{_path(token['fault'])}"])
        node.admin(["rmdir", f"{NODE_DATA}/{_RECORDS}"])  # fails while there are others: as wanted

    def probe(self, token: Token, *, applied: bool) -> Proof:
        """In force: the files are as the record says they were to become, under a dead process.
        Undone: the process runs and the record is gone."""
        node = self.nodes[token["node"]]
        files = _in_force(node, token) if applied else _gone(node, token)
        process = self._process(node, token, applied=applied)
        return Proof(files.proven and process.proven, [*process.evidence, *files.evidence])

    def leftover_state(self, node: Node) -> list[str]:
        """The records of ours that lie on a node."""
        told = node.admin(["find", f"{NODE_DATA}/{_RECORDS}", "-name", "*.json"])
        records = told.output.splitlines() if told.exit_code == 0 else []
        return [f"{node.name}: files were damaged: {record}" for record in records]

    def _process(self, node: Node, token: Token, *, applied: bool) -> Proof:
        if token["pid"] is None:
            dead = not node.process().running
            return Proof(dead or not applied, [f"{node.name}: its process was dead before"])
        if not token["alive"]:
            return ProcessLever(self.nodes).probe(token, applied=applied)
        if applied:
            running = node.process().running
            told = "runs on" if running else "has died of it"
            return Proof(True, [f"{node.name}: process {token['pid']} {told}"])
        return ProcessLever(self.nodes).probe({**token, "pid": None}, applied=False)


def _in_force(node: Node, token: Token) -> Proof:
    record = _record(node, token["fault"])
    if record is None:
        return Proof(False, [f"{node.name}: no file was changed"])
    if not record["changes"]:
        return Proof(False, [f"{node.name}: there was nothing to change ({token['form']})"])
    sizes = _sizes(node)
    proofs = [
        _seen(node, Change(**change), record["before"], sizes) for change in record["changes"]
    ]
    return Proof(
        all(proof.proven for proof in proofs), [line for p in proofs for line in p.evidence]
    )


def _seen(node: Node, change: Change, before: Mapping[str, int], sizes: Mapping[str, int]) -> Proof:
    """Whether a change is there, in what lies on the disk now."""
    path = change.path
    if change.how == "delete":
        was, left = _below(path, before), _below(path, sizes)
        told = f"{len(was)} files with {sum(was):,} bytes before, {len(left)} now"
        return Proof(bool(was) and not left, [f"{node.name}: {path}: {told}"])
    if change.how == "resize":
        proven = sizes.get(path) == change.size_bytes < before[path]
    else:
        content = _read(node, path)
        proven = {
            "zero": not any(content[change.size_bytes :]) and len(content) == before[path],
            "flip": all(content[at : at + 1] == bytes([byte]) for at, byte in change.flips),
            "write": content == change.content.encode(),
        }[change.how]
    told = change.told if proven else f"NOT {change.told}"
    evidence = f"{before[path]:,} bytes before, {sizes.get(path, 0):,} now; {told}"
    return Proof(proven, [f"{node.name}: {path}: {evidence}"])


def _gone(node: Node, token: Token) -> Proof:
    left = _record(node, token["fault"]) is not None
    return Proof(not left, [f"{node.name}: our record of this fault is left"] if left else [])


def _below(path: str, sizes: Mapping[str, int]) -> list[int]:
    return [size for name, size in sizes.items() if name == path or name.startswith(f"{path}/")]


def _make(node: Node, change: Change, size_bytes: int) -> None:
    """Do one change, in place."""
    path = f"{NODE_DATA}/{change.path}"
    if change.how == "delete":
        must(node, ["rm", "-rf", "--", path])
    elif change.how == "write":
        node.put({change.path: change.content.encode()})
    elif change.how == "flip":
        for place, byte in change.flips:
            must(node, ["sh", "-c", _FLIP, "flip", f"\\0{byte:03o}", path, str(place)])
    else:
        must(node, ["truncate", "-s", str(change.size_bytes), "--", path])
        if change.how == "zero":
            must(node, ["truncate", "-s", str(size_bytes), "--", path])


def _sizes(node: Node) -> dict[str, int]:
    """Every file below the node's data folder with its size, but our own."""
    told = node.admin(["find", NODE_DATA, "-type", "f", "-printf", "%s %P\\n"])
    found = re.findall(r"(?m)^(\d+) (.+)$", told.output)
    return {path: int(size) for size, path in found if not path.startswith(f"{_RECORDS}/")}


def _read(node: Node, path: str) -> bytes:
    return next(iter(node.get(path).values()), b"")


def _path(fault: str) -> str:
    return f"{_RECORDS}/{fault}.json"


def _record(node: Node, fault: str) -> dict[str, Any] | None:
    content = _read(node, _path(fault))
    return dict(json.loads(content)) if content else None
