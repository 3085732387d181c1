"""URLs of folders as text: what is one, and what must not be in one.

A URL is shown in messages and documents, so it must hold no credentials: neither before the host
nor in its query.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import unquote, unquote_plus, urlsplit

from harness.errors import HistoryError

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_WITH_ACCESS_KEYS: Final = ("s3", "s3a", "s3n", "gs", "gcs", "http", "https")
"""Schemes in which even a name alone before the host is a credential."""
_SECRET: Final = re.compile(
    r"secret|key|token|passw|passphrase|pwd|signature|credentials?\Z|\Asig\Z", re.IGNORECASE
)
_PORT: Final = re.compile(r"(\[[^]]*\]|[^:]*)(:\d*)?")
_PASSWORD: Final = re.compile(r":.*@", re.DOTALL)
_PLAIN_NAME: Final = re.compile(r"[\w.-]+")


def is_url(text: str) -> bool:
    """Whether this names a place by a URL, not by a path."""
    return _URL.match(text) is not None


def local_path(url: str) -> Path | None:
    """The path that a `file://` URL means; `None` of any other."""
    parts = urlsplit(url)
    return Path(unquote(parts.path)) if parts.scheme.lower() == "file" else None


def refuse_credentials(url: str) -> None:
    """Raise HistoryError for a URL that has credentials: before its host, or under a key of its
    query whose name says so. The error does not repeat them."""
    scheme, _, rest = url.partition("://")
    at_host = _has_user(scheme.lower(), rest)
    secrets = list(_secrets(rest))
    if not at_host and not secrets:
        return
    place = re.split(r"[?#]", rest.rpartition("@")[2] if at_host else rest, maxsplit=1)[0]
    raise HistoryError(
        "a URL with credentials is refused, as it stands in messages",
        file=f"{scheme}://{'***@' if at_host else ''}{place}",
        key=next(filter(None, secrets), None),
        hint="leave them to the environment, such as AWS_ACCESS_KEY_ID",
    )


def _has_user(scheme: str, rest: str) -> bool:
    """Whether there is a password before the host, or a name that is an access key."""
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, at, _ = authority.rpartition("@")
    if at:
        return ":" in user or scheme in _WITH_ACCESS_KEYS
    # A password with a slash ends the authority too early, and what looks like a port is not one.
    return "@" in rest and _PORT.fullmatch(authority) is None


def _secrets(rest: str) -> Iterator[str | None]:
    """Of each secret in a query its key; `None` where that might be a part of the secret."""
    query = "".join(re.split(r"(?=[?#])", rest, maxsplit=1)[1:])
    for part in re.split(r"[?#&;]", query):
        name, _, value = part.partition("=")
        name = unquote_plus(name)
        if _SECRET.search(name) or _PASSWORD.search(unquote_plus(value)):
            yield name if value and _PLAIN_NAME.fullmatch(name) else None
