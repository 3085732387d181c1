"""The conformance suite that plug-ins of other repositories run too, over ours."""

from ackloss.conformance import *  # noqa: F403
