"""Published figures that a plan names, to be printed beside those of its own runs.

They are only numbers and text: nothing is judged by them, and no verdict changes. The totals
of a reference must be consistent, as those of a run are (each write is counted once), so a typo in
a plan is found before anything starts.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

Sentence = Annotated[str, StringConstraints(min_length=1, max_length=400)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Figures(_Part):
    """What was counted; ackloss computes the rates."""

    attempted: int = Field(ge=1, description="Writes that were attempted.")
    acknowledged: int = Field(ge=0, description="Writes that were acknowledged.")
    survivors: int = Field(ge=0, description="Writes that were found at the end.")
    lost: int = Field(ge=0, description="Acknowledged writes that were not found.")
    unacknowledged_found: int = Field(
        ge=0, description="Writes that were found and not acknowledged."
    )

    @model_validator(mode="after")
    def _balanced(self) -> Figures:
        if self.acknowledged > self.attempted:
            raise ValueError(
                f"{self.acknowledged} acknowledged are more than {self.attempted} attempted"
            )
        if self.lost > self.acknowledged:
            raise ValueError(f"{self.lost} lost are more than {self.acknowledged} acknowledged")
        if self.unacknowledged_found > self.attempted - self.acknowledged:
            raise ValueError(
                f"{self.unacknowledged_found} found unacknowledged are more than the "
                f"{self.attempted - self.acknowledged} that were not acknowledged"
            )
        theirs, ours = self.acknowledged + self.unacknowledged_found, self.survivors + self.lost
        if theirs != ours:
            raise ValueError(
                f"the totals are not consistent: acknowledged + unacknowledged_found is {theirs}, "
                f"survivors + lost is {ours}"
            )
        return self


class Reference(_Part):
    """Published figures; reports print them beside those of the plan's own runs."""

    source: str = Field(min_length=1, max_length=120, description="Their source; only text.")
    figures: Figures = Field(description="see [reference.figures]")
    differs: list[Sentence] = Field(
        default_factory=list,
        max_length=20,
        description="Sentences: what differed there, and why.",
    )
