"""Wrong values are refused in ackloss' own words: no message of pydantic's reaches a user."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from harness import registry
from harness.errors import PlanError
from harness.plan import parse_plan
from harness.wrong_values import by_value, dotted, expected, first_of, what_of

OTHER_WORDS = re.compile(
    r"input should|should be|should have|valid |instance of|constrained|literal\[|list\[|field req"
    r"|unable to parse|pydantic|another value"
)
"""What pydantic says, how it names forms, and our own words for what we have no words for."""

WRONG: tuple[Any, ...] = ("a b\n", -1, float("nan"), True, [[]], {"x": {}})


class Sample(BaseModel):
    """A table with a key of each form."""

    model_config = ConfigDict(extra="forbid")

    number: int = Field(1, ge=1, le=9)
    share: float = Field(0.5, gt=0, lt=1)
    text: str = Field("a", min_length=1, max_length=3, pattern="^a")
    names: list[str] = Field(["a"], min_length=1, max_length=2)
    flag: bool = False
    one_of: Literal["in", "out"] = "in"
    some: Literal["all"] | list[int] = "all"
    scalar: bool | int | float | str = 1
    settings: dict[str, bool | int] = Field(default_factory=dict)


def wrong(**values: object) -> tuple[str, str, str | None]:
    """The key, what is wrong and what would be right."""
    with pytest.raises(ValidationError) as raised:
        Sample.model_validate(values)
    findings = first_of(raised.value.errors())
    return dotted(findings[0]["loc"]), *what_of(findings)


@pytest.mark.parametrize(
    ("values", "key", "hint"),
    [
        ({"number": "many"}, "number", "use an integer"),
        ({"number": 2.5}, "number", "use an integer"),
        ({"number": 0}, "number", "use 1 or more"),
        ({"number": 10}, "number", "use 9 or less"),
        ({"share": "half"}, "share", "use a number"),
        ({"share": 0}, "share", "use more than 0"),
        ({"share": 1}, "share", "use less than 1"),
        ({"text": 3}, "text", "use text"),
        ({"text": ""}, "text", "use text of length 1 or more"),
        ({"text": "abcd"}, "text", "use text of length 3 or less"),
        ({"text": "b"}, "text", "it must match ^a"),
        ({"names": "b"}, "names", "use a list: ['b']"),
        ({"names": {}}, "names", "use a list"),
        ({"names": []}, "names", "use a list of length 1 or more"),
        ({"names": ["a", "b", "c"]}, "names", "use a list of length 2 or less"),
        ({"flag": "maybe"}, "flag", "use true or false"),
        ({"one_of": "sideways"}, "one_of", "use 'in' or 'out'"),
        ({"some": "one"}, "some", "use 'all', or a list: ['one']"),
        ({"some": [1, "x"]}, "some.1", "use an integer"),
        ({"scalar": []}, "scalar", "use true or false, or a number, or text"),
        ({"settings": {"a.b": []}}, 'settings."a.b"', "use true or false, or an integer"),
        ({"settings": 3}, "settings", "use a table"),
        ({"other": 3}, "other", "remove it"),
    ],
)
def test_each_kind_of_wrong_value_has_its_words(
    values: dict[str, object], key: str, hint: str
) -> None:
    at, what, right = wrong(**values)
    assert (at, right) == (key, hint)
    assert what.endswith(" is not allowed here") or what == "unknown key"


def test_a_value_of_several_forms_is_one_finding() -> None:
    with pytest.raises(ValidationError) as raised:
        Sample.model_validate({"scalar": [], "number": 0, "some": {}})
    each = by_value(raised.value.errors())
    assert [findings[0]["loc"][0] for findings in each] == ["number", "some", "scalar"]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"number": "1"}, "expected an integer"),
        ({"settings": 3}, "expected an object"),
        ({"other": 3}, "is unknown"),
    ],
)
def test_a_stored_value_is_stated_and_no_edit_is_proposed(
    values: dict[str, object], sentence: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        Sample.model_validate(values, strict=True)
    assert expected(first_of(raised.value.errors())) == sentence


def refusals(read: Callable[[object], object]) -> list[PlanError]:
    """Why wrong values are refused, each value that is."""
    errors = []
    for value in WRONG:
        try:
            read(value)
        except PlanError as error:
            errors.append(error)
    return errors


def keys_of(system: str) -> Iterator[tuple[str, ...]]:
    """Every key of the plans of a target, two tables deep."""
    for name, field in registry.plugins("targets")[system].plan.model_fields.items():
        yield (field.alias or name,)
        below = field.annotation
        if isinstance(below, type) and issubclass(below, BaseModel):
            for key, inner in below.model_fields.items():
                yield name, inner.alias or key


@pytest.mark.parametrize("system", registry.usable("targets"))
def test_no_key_of_a_plan_is_refused_in_words_of_pydantics(system: str) -> None:
    for keys in keys_of(system):

        def read(value: object, keys: tuple[str, ...] = keys) -> None:
            document: dict[str, Any] = {"schema": 1, "name": "x", "target": {"system": system}}
            place = document
            for key in keys[:-1]:
                place = place.setdefault(key, {})
            place[keys[-1]] = value
            parse_plan(document, file="plan.toml")

        errors = refusals(read)
        assert errors, keys
        assert all(error.key for error in errors), keys
        assert not [str(error) for error in errors if OTHER_WORDS.search(str(error))]


def of_plug_in(kind: str, name: str, option: str) -> Callable[[object], object]:
    return lambda value: registry.make(kind, name, {option: value}, key="table.name")


@pytest.mark.parametrize("kind", ["nemeses", "workloads", "checkers", "clusters"])
def test_no_option_of_a_plug_in_is_refused_in_words_of_pydantics(kind: str) -> None:
    for name, plugin in registry.plugins(kind).items():
        for field in fields(plugin):
            errors = refusals(of_plug_in(kind, name, field.name))
            assert errors, (name, field.name)
            assert all((error.key or "").startswith("table") for error in errors)
            assert not [str(error) for error in errors if OTHER_WORDS.search(str(error))]
