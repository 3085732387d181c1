"""Numbers and sentences as people read them."""

from __future__ import annotations

from typing import Any

import pytest

from analysis.visible import visible, visible_all
from reports import words


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (3347, 4799, "69.7 %"),
        (520, 987, "52.7 %"),
        (1, 987, "0.10 %"),
        (0, 987, "0 %"),
        (987, 987, "100 %"),
        (9999, 10_000, "99.990 %"),
        (1, 3_000_000, "0.000033 %"),
        (2_999_999, 3_000_000, "99.999967 %"),
        (0, 0, words.UNDEFINED),
    ],
)
def test_a_share_is_nothing_or_all_only_when_it_is(part: int, whole: int, text: str) -> None:
    assert words.percent(part, whole) == text


def counts(**known: int) -> dict[str, int]:
    return {"acknowledged": 100, "lost": 0, "unexpected": 0, "failed_found": 0, **known}


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (
            {"verdict": "invalid", "counts": counts(acknowledged=4799, lost=3347)},
            "3,347 of 4,799 acknowledged writes were lost (69.7 %)",
        ),
        (
            {"verdict": "invalid", "counts": counts(lost=1)},
            "1 of 100 acknowledged writes was lost (1.0 %)",
        ),
        ({"verdict": "valid", "counts": counts()}, "None of 100 acknowledged writes was lost"),
        (
            {"verdict": "unknown", "counts": counts(lost=3)},
            "It is not known whether acknowledged writes were lost",
        ),
        (
            {"verdict": "invalid", "counts": counts(unexpected=2)},
            "No acknowledged write was lost, but 2 values were read that nobody wrote",
        ),
        (
            {"verdict": "invalid", "counts": counts(duplicates=1)},
            "No acknowledged write was lost, but 1 write stands in the log again",
        ),
        (None, "This run has not been checked"),
    ],
)
def test_the_answer_in_one_sentence(result: dict[str, Any] | None, sentence: str) -> None:
    assert words.headline(result) == sentence


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31mred\x00", "\\u001b[31mred\\u0000"),
        ("user\u202egnp.exe", "user\\u202egnp.exe"),
        ("a\u200bb\u2066c\ufeff", "a\\u200bb\\u2066c\\ufeff"),
        ("\x85\x9b\r", "\\u0085\\u009b\\u000d"),
        ("päck → ✓ 日本", "päck → ✓ 日本"),
    ],
)
def test_what_acts_or_hides_is_shown(text: str, seen: str) -> None:
    assert visible(text) == seen
    assert visible_all({"k": [text, 1, None], text: ()}) == {"k": [seen, 1, None], seen: []}


def test_settings_are_flat_and_as_kafka_writes_them() -> None:
    told = words.flat({"a": {"b.c": True, "d": [1, "x"]}, "e": [{"f": None}], "g": 1.5})
    assert told == {"a.b.c": "true", "a.d": "1, x", "e.0.f": "", "g": "1.5"}


@pytest.mark.parametrize(
    ("run", "command"),
    [
        ({"plan_file": "p.toml"}, "ackloss run --seed 7 p.toml"),
        (
            {"plan_file": "p.toml", "command": ["ackloss", "run", "p.toml", "--set", "a=b c"]},
            "ackloss run --seed 7 p.toml --set 'a=b c'",
        ),
        (
            {"plan_file": "q.toml", "command": ["ackloss", "run", "--seed=7", "p.toml", "q.toml"]},
            "ackloss run --seed=7 q.toml",
        ),
    ],
)
def test_the_command_that_repeats_one_run(run: dict[str, Any], command: str) -> None:
    assert words.command(run, 7) == command
