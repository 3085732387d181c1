"""A recipe's tag is the hash of everything that its image is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.images.recipe import Recipe

RECIPE = Recipe(
    name="thing",
    version="1.2",
    packages=("netcat-openbsd",),
    jars=("org.example:thing:1.2",),
    exclude=("org.example:gone",),
)


def test_the_same_recipe_has_the_same_reference() -> None:
    assert RECIPE.reference("debian:12") == replace(RECIPE).reference("debian:12")
    assert RECIPE.reference("debian:12").startswith("ackloss/thing:1.2-")


@pytest.mark.parametrize(
    ("changed", "base"),
    [
        (replace(RECIPE, packages=("netcat-openbsd", "procps")), "debian:12"),
        (replace(RECIPE, jars=("org.example:thing:1.2", "org.example:more:1")), "debian:12"),
        (replace(RECIPE, exclude=()), "debian:12"),
        (replace(RECIPE, jar_folder="/elsewhere"), "debian:12"),
        (RECIPE, "ubuntu:24.04"),
    ],
)
def test_a_changed_recipe_or_base_has_another_reference(changed: Recipe, base: str) -> None:
    assert changed.reference(base) != RECIPE.reference("debian:12")


def test_jars_are_copied_only_when_the_recipe_has_any() -> None:
    assert "COPY libs /opt/libs" in RECIPE.dockerfile("debian:12")
    assert "COPY" not in replace(RECIPE, jars=()).dockerfile("debian:12")
