"""The user's configuration of this machine: `~/.config/ackloss/config.toml`, or the environment.

It holds what is the same for all runs here and what a plan must not contain, since a plan may come
from a stranger. The environment overrides the file.
"""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path

from platformdirs import user_config_dir
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness.errors import EnvironmentFailure
from harness.plan import Image
from harness.wrong_values import explain


class UserConfig(BaseModel):
    """The keys of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    base_image: Image | None = Field(
        None,
        description="The Debian or Ubuntu image that node images are built from. Without one, a "
        "Debian 12 is made from the distribution's packages. Environment: ACKLOSS_BASE_IMAGE.",
    )


def config_path() -> Path:
    """Where the file is or would be. Environment: ACKLOSS_CONFIG."""
    return Path(
        os.environ.get("ACKLOSS_CONFIG") or Path(user_config_dir("ackloss")) / "config.toml"
    )


@cache
def user_config() -> UserConfig:
    """The configuration of this machine's user. Raises EnvironmentFailure for an invalid file."""
    path = config_path()
    try:
        given = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        given = {}
    except (OSError, ValueError) as error:
        raise EnvironmentFailure(f"cannot be read: {error}", file=str(path)) from error
    if base_image := os.environ.get("ACKLOSS_BASE_IMAGE"):
        given["base_image"] = base_image
    try:
        return UserConfig.model_validate(given)
    except ValidationError as error:
        found = explain(error, UserConfig, file=str(path))
        raise EnvironmentFailure(
            found.what, file=found.file, key=found.key, hint=found.hint
        ) from error
