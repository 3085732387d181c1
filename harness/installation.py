"""Where this ackloss comes from, and what comes with it.

`harness/shipped/` holds links to the checkout's `plans/` and `campaigns/`; a wheel has the files
themselves in their place. So what is found by name needs no clone.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

PLANS: Final = "plans"
CAMPAIGNS: Final = "campaigns"
"""What comes with ackloss and is found by name: folders in `harness/shipped/`."""

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


def shipped(kind: str) -> Path:
    """The folder of the plans or campaigns that come with this ackloss."""
    return _HERE / "shipped" / kind
