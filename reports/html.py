"""One self-contained HTML file from a template: escaping, security policy, embedded data.

A run may hold untrusted text, such as a plan's name or a log line. Three defences, each sufficient
alone: Jinja2 escapes every value (autoescape) after its control characters are made visible; the
data for the script is a JSON block without any `<`; the policy of the page allows one style and one
script, by their hashes, and no network.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined, UndefinedError
from markupsafe import Markup

from analysis.drawing import DARK, FAULT_TINTS, LIGHT
from analysis.wording import capitalised, visible, visible_all
from harness.protocols.runs import NULL
from reports import formatting

_POLICY: Final = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_INDENTATION: Final = re.compile(r"^[ \t]+", re.MULTILINE)


def render(
    template: str, data: Any = None, *, script: str = "timeline.js", **context: Any
) -> bytes:
    """The page as UTF-8; `data` becomes the JSON block `data` for the script.

    Raises KeyError when the template uses a name that the context does not have.
    """
    style, code = _style(), _static(script)
    page = _environment().get_template(template)
    try:
        text = page.render(
            policy=_POLICY.format(style=_hash(style), script=_hash(code)),
            style=Markup(style),  # noqa: S704 a file of this package
            script=Markup(code),  # noqa: S704 a file of this package
            data=embedded(data),
            **context,
        )
    except UndefinedError as error:
        raise KeyError(error.message) from error
    return text.encode("utf-8", "backslashreplace")


def embedded(data: Any) -> Markup:
    """JSON that no HTML parser can read as markup: it has no `<`."""
    body = orjson.dumps(visible_all(data)).decode()
    return Markup(body.replace("<", "\\u003c"))  # noqa: S704 no markup is left


def picture(svg: bytes) -> Markup:
    """A drawing as a data URI, for an attribute in double quotes: text, which is shorter than
    base64."""
    text = svg.decode()
    if "'" not in text:
        text = text.replace('"', "'")
    uri = "data:image/svg+xml," + quote(text, safe=" /:=',()+;")
    return Markup(uri)  # noqa: S704 it has no character that ends the attribute or begins markup


def on_both_papers(draw: Callable[[Mapping[str, str]], bytes]) -> dict[str, str]:
    """A drawing, made with the colours of light and of dark paper, as data URIs."""
    return {name: picture(draw(colours)) for name, colours in (("light", LIGHT), ("dark", DARK))}


_HEAD: Final = re.compile(r"<th\b[^>]*>(.*?)</th>", re.DOTALL)
_ROW: Final = re.compile(r"<tr\b.*?</tr>", re.DOTALL)
_CELL: Final = re.compile(r"<t[dh]\b(?:[^>]*?colspan=\"(\d+)\")?")
_TAG: Final = re.compile(r"<[^>]*>")


def labelled(table: Markup) -> Markup:
    """The inside of a table, each cell with the head of its column: on a phone a row is a block. A
    row with fewer cells than heads lacks the first ones, which span several rows."""
    head, end, body = str(table).partition("</thead>")
    heads = [" ".join(_TAG.sub(" ", each).split()) for each in _HEAD.findall(head)]

    def row(found: re.Match[str]) -> str:
        sizes = [int(each or 1) for each in _CELL.findall(found[0])]
        places = iter([len(heads) - sum(sizes[at:]) for at in range(len(sizes))])

        def cell(begin: re.Match[str]) -> str:
            label = heads[place] if (place := next(places)) >= 0 else ""
            return f'{begin[0][:3]} data-label="{label}"{begin[0][3:]}' if label else begin[0]

        return _CELL.sub(cell, found[0])

    return Markup(head + end + _ROW.sub(row, body))  # noqa: S704 heads are escaped already


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _static(name: str) -> str:
    return (files("reports") / "static" / name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    """The style sheet, after the palette's colours for light and dark paper."""
    light, dark = (
        "".join(f"--{name}:{colour};" for name, colour in palette.items())
        for palette in (LIGHT, DARK)
    )
    themes = f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return f"{themes}\n{_static('page.css')}"


class _Unindented(PackageLoader):
    """Templates without the indentation of their lines, a thirtieth of a large page. What they
    insert keeps its own."""

    def get_source(
        self, environment: Environment, template: str
    ) -> tuple[str, str, Callable[[], bool] | None]:
        source, file, is_current = super().get_source(environment, template)
        return _INDENTATION.sub("", source), file, is_current


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=_Unindented("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        finalize=_finalize,
    )
    filters = (
        *(labelled, capitalised, formatting.number, formatting.seconds, formatting.milliseconds),
        *(formatting.share, formatting.rate, formatting.lost, formatting.loss_rate),
        *(formatting.moment, formatting.icon),
    )
    environment.filters |= {each.__name__: each for each in filters}
    environment.globals |= {"fault_tints": FAULT_TINTS, "NULL": NULL}
    environment.globals |= {"command": formatting.command, "repeats": formatting.repeats}
    return environment


def _finalize(value: Any) -> Any:
    """The text of any `{{ ... }}`, with control and invisible characters made visible."""
    if isinstance(value, Markup):
        return value
    return "—" if value is None else visible(str(value))
