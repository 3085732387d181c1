"""Plans and campaigns that come with ackloss, found by name; and where this ackloss comes from.

`harness/shipped/` holds links to the checkout's `plans/` and `campaigns/`; a wheel has the files
themselves in their place. So what is found by name needs no clone.

A name is the path below `plans/` or `campaigns/` without `.toml` (`faults/storm`), or its last part
where that is unique (`storm`). A file that exists always wins over a name.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from harness.errors import PlanError, nearest

PLANS: Final = "plans"
CAMPAIGNS: Final = "campaigns"
"""What comes with ackloss and is found by name: folders in `harness/shipped/`."""

_HERE: Final = Path(__file__).resolve().parents[1]
_SUFFIX: Final = ".toml"


def checkout(package: Path = _HERE) -> Path | None:
    """The root of ackloss' own checkout; `None` where `package`, the harness, was installed.

    A folder that merely contains an installed ackloss, such as a user's repository with a virtual
    environment in it, is not one: the root holds ackloss' own pyproject.toml.
    """
    root = package.resolve().parent
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        return root if project["name"] == "ackloss" else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def shipped(kind: str) -> Path:
    """The folder of the plans or campaigns that come with this ackloss."""
    return _HERE / "shipped" / kind


def named_files(kind: str) -> dict[str, Path]:
    """The shipped files of a kind by their full names, sorted; those at the top come first."""
    folder = shipped(kind)
    files = folder.rglob(f"*{_SUFFIX}")
    named = {file.relative_to(folder).with_suffix("").as_posix(): file for file in files}
    return dict(sorted(named.items(), key=lambda item: ("/" in item[0], item[0])))


def abouts(kind: str) -> dict[str, str]:
    """What each shipped file is about, in one sentence, by its full name."""
    return {name: _about(file) for name, file in named_files(kind).items()}


def _about(file: Path) -> str:
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    words = " ".join(str(document.get("about") or document.get("name", "")).split())
    return re.split(r"(?<=[.?!]) ", words, maxsplit=1)[0]


def is_path(text: str) -> bool:
    """Whether this can only be a path, whether or not the file exists."""
    return text.endswith(_SUFFIX) or text.startswith((".", "/", "~"))


def find(kind: str, given: str | Path) -> Path:
    """The file that a path or a name means.

    Raises PlanError for what is neither (the nearest name is suggested), and for the last part of
    several names.
    """
    text, one = str(given), kind.removesuffix("s")
    if Path(text).is_file() or is_path(text):
        return Path(text)
    files = named_files(kind)
    if text in files:
        return files[text]
    meant = [name for name in files if name.rpartition("/")[2] == text]
    if len(meant) == 1:
        return files[meant[0]]
    if meant:
        raise PlanError(f"several {kind} have the name {text!r}", hint=f"use {' or '.join(meant)}")
    raise PlanError(
        f"there is no file {text!r}, and no {one} of this name comes with ackloss",
        hint=_suggestion(text, kind, list(files)),
    )


def _suggestion(text: str, kind: str, names: list[str]) -> str:
    by_last_part = {name.rpartition("/")[2]: name for name in reversed(names)}
    near = nearest(text, names) or by_last_part.get(nearest(text, list(by_last_part)) or "")
    return f"did you mean {near!r}?" if near else f"`ackloss list {kind}` shows them"
