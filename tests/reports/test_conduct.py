"""What clients of the user's did wrong, on the page and on the command line."""

from __future__ import annotations

from typing import Any

import pytest

from ackloss.cli.output import Output, _print_clients
from harness.errors import HistoryError
from harness.history.documents import RunResult, result_of
from harness.protocols.runs import Conduct, Incident
from reports.run_view import conduct

LIES = tuple(Incident(client=n, at_s=1.25, kind="lie", what=f"lie {n}") for n in range(1, 9))
LIARS = Conduct(command=("x",), software="lib 1.0", started=8, lies=8, deaths=1, incidents=LIES)


def result(clients: Conduct | None) -> RunResult:
    document: dict[str, Any] = {
        "verdict": "unknown",
        "counts": {"attempted": 1, "acknowledged": 1, "lost": 0},
        "clients": None if clients is None else clients.document(),
    }
    return result_of(document)


def test_incidents_are_read_from_a_result_and_shown() -> None:
    found = result(LIARS)
    assert found.clients == LIARS
    (callout,) = conduct(found)
    assert "8 lies, 1 death" in callout.title
    assert "client-1 at 1.2 s: lie 1" in callout.text
    assert "more" in callout.text


@pytest.mark.parametrize("clients", [None, Conduct(command=("x",), software="lib 1.0", started=3)])
def test_nothing_is_shown_where_there_is_nothing(clients: Conduct | None) -> None:
    assert list(conduct(result(clients))) == []
    assert list(conduct(None)) == []


def test_the_command_line_counts_incidents(capsys: pytest.CaptureFixture[str]) -> None:
    _print_clients(Output(no_color=True), result(LIARS))
    reported = capsys.readouterr().out
    assert "clients lib 1.0: 8 lies, 1 death" in reported
    assert "client-5 at 1.2 s: lie 5" in reported
    assert "client-6" not in reported
    _print_clients(Output(no_color=True), result(None))
    assert capsys.readouterr().out == ""


def test_a_result_with_a_conduct_that_is_none_is_refused() -> None:
    with pytest.raises(HistoryError):
        result_of(
            {
                "verdict": "valid",
                "counts": {"attempted": 1, "acknowledged": 1, "lost": 0},
                "clients": {"lies": "many"},
            }
        )
