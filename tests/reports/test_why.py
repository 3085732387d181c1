"""The picture of a log that was cut, beside why its writes were lost."""

from __future__ import annotations

from harness.history.explanations import Chain
from reports.why import Bar, Story


def story(kept: int, last: int) -> Story:
    chain = Chain(cause="c", sentence="s", writes=9, partition=0, first=1, last=last, kept=kept)
    return Story(0, (chain,), {})


def test_a_log_that_was_cut_is_drawn_with_what_it_lost() -> None:
    assert story(kept=83, last=1_136).bars == [
        Bar("kept", 0, 83, None),
        Bar("removed", 83, 1_137, None),
    ]


def test_a_log_whose_head_was_deleted_is_not_drawn_as_cut() -> None:
    assert story(kept=1_610, last=1_607).bars == []
