"""One self-contained HTML file out of a template: escaping, the security policy, what is embedded.

Whatever a run holds may come from a stranger: a plan's name, a broker's log line. Three walls, each
enough by itself: every value is escaped by Jinja2 (autoescape) after its control characters were
made visible; data for the script stands in a JSON block in which no `<` is left; and the policy in
the page allows only the one style and the one script whose hashes it names, and no network at all.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import Any, Final

import orjson
from jinja2 import Environment, PackageLoader, StrictUndefined, UndefinedError
from markupsafe import Markup

from analysis.palette import DARK, FAULT_TINTS, LIGHT
from analysis.visible import visible, visible_all
from reports import words

_POLICY: Final = (
    "default-src 'none'; style-src '{style}'; script-src '{script}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)


def render(
    template: str, data: Any = None, *, script: str = "timeline.js", **context: Any
) -> bytes:
    """The page as UTF-8; `data` is embedded for the script as the JSON block `data`.

    Raises KeyError when the template asks for something that the context does not hold.
    """
    style, code = _style(), _static(script)
    page = _environment().get_template(template)
    try:
        text = page.render(
            policy=_POLICY.format(style=_hash(style), script=_hash(code)),
            style=Markup(style),  # noqa: S704 ours, not a run's
            script=Markup(code),  # noqa: S704 ours, not a run's
            data=embedded(data),
            **context,
        )
    except UndefinedError as error:
        raise KeyError(error.message) from error
    return text.encode("utf-8", "backslashreplace")


def embedded(data: Any) -> Markup:
    """JSON that no HTML parser can take for anything else: not one `<` is left in it."""
    body = orjson.dumps(visible_all(data)).decode()
    return Markup(body.replace("<", "\\u003c"))  # noqa: S704 holds no markup any more


def picture(content: bytes, kind: str) -> str:
    """An image as a data URI."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _static(name: str) -> str:
    return (files("reports") / "static" / name).read_text(encoding="utf-8")


@cache
def _style() -> str:
    """The style sheet, led by the palette's colours for light and for dark paper."""
    light, dark = (
        "".join(f"--{name}:{colour};" for name, colour in palette.items())
        for palette in (LIGHT, DARK)
    )
    themes = f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return f"{themes}\n{_static('page.css')}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters |= {
        "number": words.number,
        "seconds": words.seconds,
        "share": words.share,
        "milliseconds": words.milliseconds,
        "moment": words.moment,
    }
    environment.globals |= {"percent": words.percent, "fault_tints": FAULT_TINTS}
    return environment


def _finalize(value: Any) -> Any:
    """What any `{{ ... }}` comes to: nothing is left that could act or hide."""
    if isinstance(value, Markup):
        return value
    return "—" if value is None else visible(str(value))
