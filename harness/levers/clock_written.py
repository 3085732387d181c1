"""What a process itself last wrote, and by which clock: the newest line of its log that begins with
a time (UTC), compared with the time at which the kernel saw the file change.

So a moved clock is seen in what the target's process does, and not only in another process that was
started beside it with the same library. The target's data files are left out, because a record's
time may be its producer's, and so are our own files.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from harness.levers.clock_script import FOLDER
from harness.protocols import NODE_DATA, STORED, Node

_STAMP: Final = r"^\[?[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}[.,][0-9]{3}"
# The newest file with a time that did not change while it was read, and its last line with one.
_NEWEST: Final = f"""\
cd {NODE_DATA} || exit 1
for _ in 1 2 3 4 5; do
    newest=$(find . \\( -path ./{STORED} -o -path ./{FOLDER} \\) -prune -o -type f -size +0 \
        -printf '%T@ %p\\n' | sort -rn | while read -r at file; do
            if tail -c 8192 "$file" | grep -qaE '{_STAMP}'; then echo "$at $file"; break; fi
        done)
    file=${{newest#* }}
    line=$(tail -c 8192 "$file" | grep -aoE '{_STAMP}' | tail -n 1)
    [ "${{newest%% *}}" = "$(find "$file" -printf '%T@')" ] && break
done
echo "${{newest%% *}} $(date +%s.%N) $line"
"""


@dataclass(frozen=True)
class Written:
    """The newest line with a time: written `age_s` ago, and `off_s` ahead of the host's clock."""

    age_s: float
    off_s: float


def newest(node: Node) -> Written | None:
    """What the node's process wrote last; None when it has written nothing with a time."""
    output = node.admin(["sh", "-c", _NEWEST]).output
    found = re.fullmatch(r"(\d+\.\d+) (\d+\.\d+) \[?(\S+)[ T](\S+)", output.strip())
    if found is None:
        return None
    at_s, now_s = float(found[1]), float(found[2])
    stamp = datetime.fromisoformat(f"{found[3]} {found[4].replace(',', '.')}")
    return Written(now_s - at_s, stamp.replace(tzinfo=UTC).timestamp() - at_s)
