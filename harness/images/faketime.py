"""libfaketime, copied once out of the infrastructure image, for nodes of any image."""

from __future__ import annotations

from harness.errors import EnvironmentFailure
from harness.images.keeping import kept
from harness.images.oneoff import one_off
from harness.images.recipe import FILES
from harness.protocols import ImageRef

_NAME = "libfaketimeMT.so.1"
_COPY_S = 30


def library(infra_image_id: str) -> bytes:
    """The library's content, from the cache after the first time. Raises EnvironmentFailure."""

    def read() -> bytes:
        # to a fixed path first: its own depends on the machine's architecture
        copy = ["sh", "-c", f"cp /usr/lib/*/faketime/{_NAME} {FILES}"]
        with one_off(infra_image_id, copy) as copying:
            copying.wait(limit_s=_COPY_S)
            content = copying.read(f"{FILES}/{_NAME}")
            if content is None:
                why = copying.output().strip()[:200]
                raise EnvironmentFailure(f"the infrastructure image has no libfaketime: {why}")
            return content

    image = ImageRef(reference="infra", id=infra_image_id)
    return kept(image, _NAME, "", read).read_bytes()
