"""Pages of synthetic runs, written once, and a browser that opens them."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from checkers.judging.one_run import judge_run
from harness.history.run_folder import RunDir
from reports.page import write_report
from tests.fixtures.memory_cells import run_of_cells
from tests.fixtures.pictures import drawn, undrawn
from tests.fixtures.synthetic_run import Story, build, build_interrupted

EVIL = (
    "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=2>"
    "\x1b[31m\u202eevil\u2066 $\\frac{1$ {{ 7*7 }} =cmd()"
)
STORIES = {
    "unclean": Story(),
    "safe": Story(name="safe", unclean=False, verdict="valid", reason="every value was read"),
    "unknown": Story(
        name="unknown", unclean=False, proven=False, verdict="unknown", reason="not proven"
    ),
    "hostile": Story(name="hostile", text=EVIL, proven=False),
    "partitions": Story(name="partitions", partitions=7),
}


HISTORIES = Path(__file__).parents[1] / "histories" / "runs"
REAL = {"group": "fenced-java-consumer", "transactions": "transactions-torn"}
"""Runs of real Kafka."""
DRAWN = ("unclean", "hostile", "group", "transactions")
"""Pages with their pictures; those of the others show nothing else than these."""


@pytest.fixture(scope="module", name="undrawn")
def without_pictures() -> Iterator[None]:
    """Figures are made of whatever a page shows, and are not drawn, unless tests say `drawn`."""
    with undrawn():
        yield


class Runs(dict[str, RunDir]):
    """One run for each kind, written with its page on first access."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.folder = folder

    def __missing__(self, name: str) -> RunDir:
        if name in REAL:
            run = RunDir(self.folder / name)
            shutil.copytree(HISTORIES / REAL[name], run.path)
            judge_run(run)
        else:
            made = build(self.folder, STORIES[name]) if name in STORIES else None
            run = made or build_interrupted(self.folder)
        self[name] = run
        with drawn() if name in DRAWN else undrawn():  # the first test that opens it writes it
            write_report(run)
        return run


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """The runs of these tests, by kind."""
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def run_with_cells(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A run of four cells, judged, and its pages, one with pictures. Nobody may change it."""
    run = run_of_cells(tmp_path_factory.mktemp("cells"))
    judge_run(run)
    with undrawn():
        write_report(run)
    with drawn():
        write_report(run.cell("unclean"))
    return run


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The headless browser that is installed on this machine."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def context_of(chromium: Any) -> Callable[..., tuple[Any, list[Any]]]:
    """A browser context for each set of options, and its idle pages. These are used again: a new
    page costs as much as what it shows, and three times that in a context without another, which is
    why an empty one stays. Our pages store nothing that another could find."""

    @cache
    def made(**options: bool) -> tuple[Any, list[Any]]:
        context = chromium.new_context(**options)
        context.new_page()
        return context, []

    return made


def _listening(page: Any) -> Any:
    """A page that notes its errors and network requests in `page.troubles`."""
    page.on("pageerror", lambda error: page.troubles.append(str(error)))
    page.on("console", lambda message: page.troubles.append(message.text))
    page.on("dialog", lambda dialog: page.troubles.append(dialog.message))
    page.on(
        "request",
        lambda request: (
            request.url.startswith(("file:", "data:", "about:"))
            or page.troubles.append(request.url)
        ),
    )
    return page


@pytest.fixture
def visit(context_of: Callable[..., tuple[Any, list[Any]]]) -> Iterator[Any]:
    """Opens a page; its errors and network requests are in `page.troubles`."""
    used: list[tuple[list[Any], Any]] = []

    def open_page(
        path: Path, *, width: int = 1440, color_scheme: str = "light", **options: bool
    ) -> Any:
        context, idle = context_of(**options)
        page = idle.pop() if idle else _listening(context.new_page())
        used.append((idle, page))
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=color_scheme, media="null")
        page.troubles = []
        page.goto(path.as_uri())
        return page

    yield open_page
    for idle, page in used:
        page.troubles = []
        page.goto("about:blank")
        page.mouse.move(0, 0)
        idle.append(page)
