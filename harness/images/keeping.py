"""What is made of an image, once, as it takes long: kept in the cache folder by the image's id."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from harness.images.locks import alone
from harness.machine.paths import cache_dir
from harness.protocols import ImageRef


def kept(image: ImageRef, name: str, depends_on: str, make: Callable[[], bytes]) -> Path:
    """Something made of an image, and of what it depends on: made now unless it is there."""
    made = place(image, name, depends_on)
    with alone(f"{made.stem}-{made.parent.name}"):
        if not made.exists():
            keep(made, make())
    return made


def place(image: ImageRef, name: str, depends_on: str) -> Path:
    """Where something made of an image, and of what it depends on, is kept."""
    digest = hashlib.sha256(depends_on.encode()).hexdigest()[:12]
    folder = cache_dir() / "images" / image.id.removeprefix("sha256:")[:16]
    stem, _, suffix = name.partition(".")
    return folder / f"{stem}-{digest}.{suffix}"


def keep(path: Path, content: bytes) -> None:
    """Write a file completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_bytes(content)
    half.replace(path)
