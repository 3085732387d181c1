"""What CI systems read: Markdown in which no text of a run becomes markup, and test cases in the
format of Jenkins (junit-4.xsd): suites, and what suites are made of."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping, Sequence
from xml.etree import ElementTree as ET

from analysis.wording import visible

_MARKUP = re.compile(r"([\\`*_\[\]|~#])")


def text(value: object) -> str:
    """A value as Markdown that renders as exactly this text, on one line."""
    plain = visible(" ".join(str(value).split()))
    return _MARKUP.sub(r"\\\1", html.escape(plain, quote=False))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(text(value) for value in row)} |" for row in rows]
    return "\n".join(lines)


def bullets(sentences: Iterable[str]) -> str:
    return "\n".join(f"- {text(sentence)}" for sentence in sentences)


def document(suite: ET.Element) -> bytes:
    suites = ET.Element("testsuites", name="ackloss")
    suites.append(suite)
    ET.indent(suites)
    body: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return body + b"\n"


def properties(stated: Mapping[str, str]) -> ET.Element:
    """What a suite states about all of its cases."""
    parent = ET.Element("properties")
    parent.extend(element("property", name=name, value=value) for name, value in stated.items())
    return parent


def totals(cases: Sequence[ET.Element]) -> dict[str, str]:
    """The attributes of a suite that count its cases."""

    def having(tag: str) -> str:
        return str(sum(case.find(tag) is not None for case in cases))

    return {
        "tests": str(len(cases)),
        "failures": having("failure"),
        "errors": having("error"),
        "skipped": having("skipped"),
        "time": f"{sum(float(case.get('time', 0)) for case in cases):.3f}",
    }


def test_case(check: str, name: str, seconds: float) -> ET.Element:
    """A test case that has passed, unless it gets the element `failure` or `error`."""
    return element("testcase", classname=check, name=name, time=f"{seconds:.3f}")


def element(tag: str, parent: ET.Element | None = None, /, **attributes: str) -> ET.Element:
    """An element; characters that XML cannot hold are written as escapes."""
    made = ET.Element(tag, {key: visible(value) for key, value in attributes.items()})
    if parent is not None:
        parent.append(made)
    return made
