"""The command line of a client that is a process."""

from __future__ import annotations

import pytest

from harness.errors import PlanError
from harness.run.client_process import client_command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the command is empty"),
        ("python3 'x", "close the quotes"),
        ("no-such-program x", "there is no command 'no-such-program'"),
        ("./no/such", "there is no command './no/such'"),
        ("/etc/passwd", "'/etc/passwd' is not executable"),
        ("/etc", "'/etc' is a folder"),
    ],
)
def test_a_command_that_cannot_be_run_is_refused(text: str, words: str) -> None:
    with pytest.raises(PlanError) as refusal:
        client_command(text)
    assert words in str(refusal.value)
    assert refusal.value.key == "--client"


def test_a_command_is_a_list_of_arguments_and_no_shell_line() -> None:
    assert client_command("python3 'a b' $HOME;") == ("python3", "a b", "$HOME;")
