"""The core names no system: nothing in it but prose knows Kafka, its brokers, ZooKeeper or the ISR.

What only one system has is declared by its target. Docstrings may give examples.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ("harness", "workloads", "nemeses", "schedules", "checkers", "analysis", "reports")
FORBIDDEN = re.compile(r"kafka|broker|zookeeper|(?<![a-z])isr(?![a-z])", re.IGNORECASE)

ALLOWED = {
    ("harness/history/__init__.py", "isr"): "a stored column: files of earlier runs have it",
    ("checkers/transactional_log/__init__.py", "kafka"): "Jepsen's name of it, for --checker",
    ("harness/models/__init__.py", "kafka"): "that checker is the default of its model",
}
"""Strings that stay, by file, each with the reason."""

Found = tuple[int, str]
"""A line, and what stands there."""


def identifiers(node: ast.AST) -> Iterator[str]:
    """The names that a node holds."""
    match node:
        case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.keyword(arg=str(name)) | ast.ExceptHandler(name=str(name)):
            yield name
        case ast.alias(name=name, asname=other):
            yield from (each for each in (name, other) if each)
        case ast.ImportFrom(module=str(name)):
            yield name
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names
        case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.MatchClass(kwd_attrs=names):
            yield from names


def docstrings(tree: ast.AST) -> set[int]:
    """The nodes of strings that are statements: docstrings, also those of attributes."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def violations(source: str, file: str = "") -> list[Found]:
    """What a module says that it must not."""
    if not FORBIDDEN.search(source):
        return []
    tree = ast.parse(source)
    prose, found = docstrings(tree), []
    for node in ast.walk(tree):
        words = list(identifiers(node))
        if isinstance(node, ast.Constant) and id(node) not in prose:
            value = node.value.decode("latin-1") if isinstance(node.value, bytes) else node.value
            if isinstance(value, str) and (file, value) not in ALLOWED:
                words.append(value)
        found += [(getattr(node, "lineno", 0), word) for word in words if FORBIDDEN.search(word)]
    return found


def test_the_core_names_no_system() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word}"
        for package in CORE
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, word in violations(path.read_text(), str(path.relative_to(ROOT)))
    ]
    assert found == [], "\n".join(found)


def test_every_exception_is_still_needed() -> None:
    for file, string in ALLOWED:
        strings = [
            n.value
            for n in ast.walk(ast.parse((ROOT / file).read_text()))
            if isinstance(n, ast.Constant)
        ]
        assert string in strings, f"{file} no longer holds {string!r}"


@pytest.mark.parametrize(
    "source",
    [
        "broker = 1",
        "def f(min_isr): ...",
        "def in_isr(): ...",
        "class KafkaThing: ...",
        "x.zookeeper",
        "f(brokers=3)",
        "import targets.kafka",
        "from targets.kafka import plan",
        "from x import y as kafka",
        "x = 'kafka'",
        "x = b'Shrinking ISR'",
        "x = f'{y} brokers'",
        "x = {'isr': 1}",
        "def f():\n    x = 1\n    return 'the ISR'",
        "try:\n    pass\nexcept E as broker:\n    pass",
        "match x:\n    case {'a': broker}:\n        pass",
    ],
)
def test_it_is_found_wherever_it_stands(source: str) -> None:
    assert violations(source)


@pytest.mark.parametrize(
    "source",
    [
        '"""For example Kafka."""',
        'class C:\n    x: int = 1\n    """As a broker\'s."""',
        'def f():\n    """The ISR."""',
        "misread = disregarded = 'misread'",
        "# kafka\nx = 1",
    ],
)
def test_prose_and_other_words_are_not(source: str) -> None:
    assert violations(source) == []
