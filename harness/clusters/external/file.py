"""The file of a cluster that ackloss did not start: how it is reached, and nothing more."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from harness.clusters.cluster_file import Reached

KIND: Final = "external"


class ClusterFile(Reached):
    """The complete file."""

    kind: Literal["external"] = Field(description="ackloss did not start it.")
