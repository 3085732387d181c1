"""Builds node images, once each on this machine.

The base is a Debian made from the distribution's packages, so no image registry is needed, or an
image that the user names (`harness.machine.state`). Long steps are reported to `say`.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from docker.errors import APIError, DockerException, ImageNotFound, NotFound

from harness.errors import EnvironmentFailure
from harness.images import java
from harness.images.daemon import connect, explanation
from harness.images.keeping import Say, alone, quietly, step
from harness.images.recipe import DEBIAN, INFRA, MMDEBSTRAP, Recipe, kept_program, made_base
from harness.machine.files import run_program, scratch
from harness.machine.state import user_config
from harness.protocols import ImageRef

_BUILD_LIMIT_S = 1800


def base_reference() -> str:
    """The base that images are built from: the user's own, or the one that mmdebstrap makes."""
    return user_config().base_image or made_base()


def find(reference: str, *, version: str | None = None) -> ImageRef | None:
    """The local image of this name, or `None`. Pulls nothing."""
    try:
        image = connect().images.get(reference)
    except (ImageNotFound, NotFound):
        return None
    digests = image.attrs.get("RepoDigests") or [None]
    return ImageRef(reference=reference, id=str(image.id), digest=digests[0], version=version)


def infra_image(say: Say = quietly) -> ImageRef:
    """The image of a pod's infrastructure container."""
    return ensure(INFRA, say)


def ensure(recipe: Recipe, say: Say = quietly) -> ImageRef:
    """The image of a recipe, built unless it exists.

    Raises PlanError when its version does not exist, EnvironmentFailure when it cannot be built.
    """
    base = base_reference()
    reference = recipe.reference(base)
    if found := find(reference, version=recipe.version):
        return found
    with alone(reference), scratch() as folder:
        if found := find(reference, version=recipe.version):
            return found
        context = Path(folder)
        if recipe.jars:
            with step(say, f"jars of {recipe.name} {recipe.version} by Maven"):
                java.fetch(recipe, context)
        if recipe.fetched:
            shutil.copytree(kept_program(recipe, say), context / "programs")
        _ensure_base(base, say)
        with step(say, f"image {reference}"):
            _build(context, recipe.dockerfile(base), reference)
    built = find(reference, version=recipe.version)
    if built is None:
        raise EnvironmentFailure(f"the image {reference} was built but cannot be found")
    return built


def pulled(reference: str, say: Say = quietly) -> ImageRef:
    """An image that the user names, pulled when it is missing, and used unchanged."""
    if found := find(reference):
        return found
    try:
        with step(say, f"pull of {reference}"):
            connect().images.pull(reference)
    except DockerException as error:
        raise EnvironmentFailure(
            f"the image {reference} is not on this machine and cannot be pulled",
            key="target.image",
            hint=explanation(error),
        ) from error
    found = find(reference)
    if found is None:
        raise EnvironmentFailure(f"the image {reference} was pulled but cannot be found")
    return found


def _ensure_base(base: str, say: Say) -> None:
    if base != made_base():
        pulled(base, say)
        return
    with alone(base):
        if find(base) is None:
            with step(say, f"base image, Debian {DEBIAN} from its packages (mmdebstrap)"):
                _make_base(base)


def _make_base(reference: str) -> None:
    if shutil.which("mmdebstrap") is None:
        raise EnvironmentFailure(
            "mmdebstrap is missing: it makes the base image",
            hint="apt-get install mmdebstrap, or set ACKLOSS_BASE_IMAGE",
        )
    repository, _, tag = reference.partition(":")
    with scratch() as folder:
        # mmdebstrap gives up its rights: the folder must be readable by others.
        Path(folder).chmod(0o755)
        tar = Path(folder) / "base.tar"
        try:
            command = ["mmdebstrap", *MMDEBSTRAP, DEBIAN, str(tar)]
            done = run_program(command, timeout_s=_BUILD_LIMIT_S)
        except subprocess.TimeoutExpired as error:
            raise EnvironmentFailure(
                f"mmdebstrap did not finish within {_BUILD_LIMIT_S} s"
            ) from error
        if done.returncode != 0:
            raise _build_failure(reference, done.stderr.splitlines())
        connect().api.import_image_from_file(str(tar), repository=repository, tag=tag)


def _build(context: Path, dockerfile: str, reference: str) -> None:
    """Build with the host's network, so that packages can be fetched where containers have none."""
    (context / "Dockerfile").write_text(dockerfile, encoding="utf-8")
    log = list[str]()
    try:
        for event in connect().api.build(
            path=str(context),
            tag=reference,
            network_mode="host",
            rm=True,
            forcerm=True,
            decode=True,
            timeout=_BUILD_LIMIT_S,
        ):
            log.extend(str(event.get("stream") or event.get("error") or "").splitlines())
            if "error" in event:
                raise _build_failure(reference, log)
    except APIError as error:
        raise _build_failure(reference, [*log, explanation(error)]) from error


def _build_failure(reference: str, log: list[str]) -> EnvironmentFailure:
    last = " | ".join(line.strip() for line in log if line.strip()).strip()[-400:]
    return EnvironmentFailure(
        f"the image {reference} cannot be built", hint=f"the end of its log: {last}"
    )
