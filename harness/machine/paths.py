"""The folders of ackloss on this machine, outside any run: a cache and a state folder."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_cache_dir, user_state_dir


def cache_dir() -> Path:
    """Jars and class-data archives: may be deleted at any time, rebuilt when needed."""
    return Path(os.environ.get("ACKLOSS_CACHE") or user_cache_dir("ackloss"))


def state_dir() -> Path:
    """The register of this machine's runs, which `ackloss clean` works from. Without symbolic
    links: the kernel names mounts and the files of loop devices so."""
    return Path(os.environ.get("ACKLOSS_STATE") or user_state_dir("ackloss")).resolve()
