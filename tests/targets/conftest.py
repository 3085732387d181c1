"""The program that stands before nodes, compiled once for all tests of it."""

from __future__ import annotations

import pytest

from tests.fixtures.proxy import compiled


@pytest.fixture(scope="session")
def proxy_classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of the proxy."""
    return compiled(tmp_path_factory.mktemp("proxy"))
