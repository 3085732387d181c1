"""The conformance suite that plug-ins of other repositories run too, over ours."""

from ackloss.conformance.test_plugins import *  # noqa: F403
