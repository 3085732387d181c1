"""Where this ackloss comes from: its own checkout, or a package that was installed.

Plans and campaigns are folders of the checkout (`plans/`, `campaigns/`). A wheel holds copies of
them in `harness/shipped/` (pyproject.toml), so that they are found by name without a clone.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

_HERE = Path(__file__).parent


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


def shipped(kind: str, package: Path = _HERE) -> Path | None:
    """The folder of the `plans` or `campaigns` that come with this ackloss, where it has them."""
    root = checkout(package)
    folder = (package / "shipped" if root is None else root) / kind
    return folder if folder.is_dir() else None
