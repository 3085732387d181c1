"""Numbers, settings and headlines as text."""

from __future__ import annotations

import pytest

from analysis.wording import visible, visible_all
from harness.history.documents import CheckRecord, Counts, Rates, RunResult, StoredRun
from reports import formatting


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
        (745, 661, "112.7 %"),
        (3, 1, "300.0 %"),
        (0, 0, formatting.UNDEFINED),
    ],
)
def test_a_share_reads_0_or_100_percent_only_if_it_is(part: int, whole: int, text: str) -> None:
    assert formatting.rate(part / whole if whole else None) == text


def judged(
    verdict: str,
    *,
    acknowledged: int = 100,
    lost: int = 0,
    named: tuple[str, ...] | None = None,
    confirmed: dict[str, int] | None = None,
    **more: int,
) -> RunResult:
    counts = Counts(acknowledged=acknowledged, lost=lost, **more)
    if confirmed is None:
        confirmed = (
            {name: n for name, n in {"lost": lost, **more}.items() if n} if not named else {}
        )
    return RunResult(
        verdict=verdict,
        counts=counts,
        rates=Rates.of(counts),
        counter_examples=named or tuple(confirmed),
        checks=(CheckRecord(name="loss", verdict=verdict, details={"confirmed": confirmed}),),
    )


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (
            judged("invalid", acknowledged=4799, lost=3347),
            "3,347 of 4,799 acknowledged writes were lost (69.7 %)",
        ),
        (
            judged("invalid", lost=1),
            "1 of 100 acknowledged writes was lost (1.0 %)",
        ),
        (judged("valid"), "None of 100 acknowledged writes was lost"),
        (
            judged("unknown", lost=3),
            "It is not known whether acknowledged writes were lost",
        ),
        (
            judged("invalid", unexpected=2),
            "No acknowledged write was lost, but 2 values were read that were never written",
        ),
        (
            judged("invalid", duplicates=1),
            "No acknowledged write was lost, but 1 duplicate was found",
        ),
        (
            judged("invalid", lost=5, deleted=5, duplicates=1, confirmed={"duplicates": 1}),
            "1 duplicate was found; it is not known whether acknowledged writes were lost",
        ),
        (
            judged("invalid", lost=5, unexpected=2, duplicates=1, confirmed={"unexpected": 2}),
            "2 values were read that were never written; it is not known whether acknowledged "
            "writes were lost",
        ),
        (
            judged("invalid", lost=5, unexpected=1, confirmed={"lost": 3}),
            "3 of 100 acknowledged writes were lost (3.0 %)",
        ),
        (
            judged("invalid", duplicates=3, confirmed={"duplicates": 2}),
            "No acknowledged write was lost, but 2 duplicates were found",
        ),
        (
            judged("invalid", lost=1, named=("replicas_differ",)),
            "Replicas hold different records",
        ),
        (None, "This run has not been checked"),
    ],
)
def test_the_headline(result: RunResult | None, sentence: str) -> None:
    assert formatting.headline(result) == sentence


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
def test_control_and_invisible_characters_are_shown(text: str, seen: str) -> None:
    assert visible(text) == seen
    assert visible_all({"k": [text, 1, None], text: ()}) == {"k": [seen, 1, None], seen: []}


def test_settings_are_flat_and_as_kafka_writes_them() -> None:
    settings = formatting.flat({"a": {"b.c": True, "d": [1, "x"]}, "e": [{"f": None}], "g": 1.5})
    assert settings == {"a.b.c": "true", "a.d": "1, x", "e.0.f": "", "g": "1.5"}


@pytest.mark.parametrize(
    ("run", "command"),
    [
        (StoredRun(plan_file="p.toml"), "ackloss run --seed 7 p.toml"),
        (
            StoredRun(plan_file="p.toml", command=("ackloss", "run", "p.toml", "--set", "a=b c")),
            "ackloss run --seed 7 p.toml --set 'a=b c'",
        ),
        (
            StoredRun(
                plan_file="p.toml",
                command=("ackloss", "run", "p.toml", "--cluster", "theirs.toml", "--force"),
            ),
            "ackloss run --seed 7 p.toml --cluster theirs.toml --force",
        ),
        (
            StoredRun(
                plan_file="q.toml", command=("ackloss", "run", "--seed=7", "p.toml", "q.toml")
            ),
            "ackloss run --seed=7 q.toml",
        ),
    ],
)
def test_the_command_that_repeats_one_run(run: StoredRun, command: str) -> None:
    assert formatting.command(run, 7) == command
