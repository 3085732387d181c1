"""libfaketime, copied once out of the infrastructure image, for nodes of any image."""

from __future__ import annotations

import os

from harness.errors import EnvironmentFailure
from harness.images.keeping import alone
from harness.images.oneoff import one_off
from harness.images.recipe import FILES
from harness.machine.state import cache_dir

_NAME = "libfaketimeMT.so.1"
_COPY_S = 30


def library(infra_image_id: str) -> bytes:
    """The library's content, from the cache after the first time. Raises EnvironmentFailure."""
    folder = cache_dir() / "images" / infra_image_id.removeprefix("sha256:")[:16]
    kept = folder / _NAME
    with alone(f"faketime-{folder.name}"):
        if not kept.exists():
            content = _read(infra_image_id)
            folder.mkdir(parents=True, exist_ok=True)
            half = kept.with_name(f".{_NAME}.{os.getpid()}")
            half.write_bytes(content)
            half.replace(kept)
    return kept.read_bytes()


def _read(infra_image_id: str) -> bytes:
    """Copy the library to a fixed path first: its own depends on the machine's architecture."""
    copy = ["sh", "-c", f"cp /usr/lib/*/faketime/{_NAME} {FILES}"]
    with one_off(infra_image_id, copy) as copying:
        copying.wait(limit_s=_COPY_S)
        content = copying.read(f"{FILES}/{_NAME}")
        if content is None:
            raise EnvironmentFailure(
                f"the infrastructure image has no libfaketime: {copying.output().strip()[:200]}"
            )
    return content
