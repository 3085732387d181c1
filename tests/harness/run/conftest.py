"""`make`: clients that are processes, which end with the test."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.clusters.cleaning import end_client_processes
from harness.protocols.clock import RealClock
from harness.run import exec_client
from harness.run.client_process import ClientLog, ClientProcess, setup_line
from harness.run.exec_client import ExecClient, Notes
from tests.fixtures.client_places import CLIENT, Made


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Made]]:
    monkeypatch.setattr(exec_client, "AGAIN_S", 0.05)
    monkeypatch.setattr(exec_client, "CLOSE_S", 1.0)
    made: list[Made] = []

    def begin(
        misdeed: str = "",
        *,
        places: int = 1,
        within_s: float = 5.0,
        model: str = "log",
        script: Path = CLIENT,
    ) -> Made:
        run_id = f"test-{os.getpid()}-{time.monotonic_ns()}"
        written = tmp_path / "written"
        argv = (sys.executable, str(script), str(written), *([misdeed] if misdeed else []))
        logs = [ClientLog(tmp_path / f"client-{n}.log") for n in range(1, places + 1)]
        notes = Notes(RealClock(), argv)

        def start(number: int, nth: int) -> ClientProcess:
            setup = setup_line(
                run_id=run_id,
                system="none",
                version=None,
                model=model,
                client=number,
                clients=places,
                start=nth,
                answer_within_s=within_s,
                connection={"addresses": ["127.0.0.1:1"]},
            )
            name, log = f"client-{number}.{nth}", logs[number - 1]
            return ClientProcess(argv, run_id=run_id, log=log, name=name, setup=setup)

        client = ExecClient(
            start,
            places=places,
            model=model,
            answer_within_s=within_s,
            clock=RealClock(),
            notes=notes,
        )
        one = Made(client, notes, run_id, written, tmp_path, logs)
        made.append(one)
        return one

    yield begin
    for one in made:
        one.client.end()
        left = end_client_processes(one.run_id)
        assert not left
