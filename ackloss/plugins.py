"""Everything that a plug-in outside this repository needs, under one name that stays.

    from ackloss.plugins import Script, Workload, invoke

docs/extending.md explains what a nemesis, lever, workload, target and checker is; each name here is
documented where it is defined (`harness.protocols`, `harness.plan`, `harness.models`).
"""

from __future__ import annotations

from harness.models import MODELS, Model
from harness.plan import Plan

# All of them, so that a protocol that is added is here as well.
from harness.protocols import *  # noqa: F403
from harness.protocols import __all__ as _protocols

__all__ = ["MODELS", "Model", "Plan"]
__all__ += _protocols
