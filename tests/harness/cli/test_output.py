"""What the command line prints."""

from __future__ import annotations

import pytest

from harness.cli.output import about


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "about 0 min"), (70, "about 2 min"), (3599, "about 60 min"), (9360, "about 2.6 h")],
)
def test_an_estimated_time_has_a_fitting_unit(seconds: float, text: str) -> None:
    assert about(seconds) == text
