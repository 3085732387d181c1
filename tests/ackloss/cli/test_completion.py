"""The shell completes verbs, options and the names of what comes with ackloss."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.command_line import ackloss

pytestmark = pytest.mark.slow

ACKLOSS = Path(sys.executable).with_name("ackloss")


def completed(shell: str, *words: str) -> list[str]:
    """What the protocol between click and a shell answers for the last word."""
    at = words[-1] if shell == "fish" else str(len(words))
    done = ackloss(
        _ACKLOSS_COMPLETE=f"{shell}_complete",
        COMP_WORDS=" ".join(("ackloss", *words)),
        COMP_CWORD=at,
    )
    assert done.exit_code == 0, done.output
    return done.stdout.replace(",", "\n").replace("\t", "\n").splitlines()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_script_of_a_shell_is_printed(shell: str) -> None:
    done = ackloss(_ACKLOSS_COMPLETE=f"{shell}_source")
    assert done.exit_code == 0
    assert f"_ACKLOSS_COMPLETE={shell}_complete" in done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_verbs_options_and_shipped_names_are_completed(shell: str) -> None:
    assert "campaign" in completed(shell, "camp")
    assert "--dry-run" in completed(shell, "run", "--dry")
    plans = completed(shell, "run", "kafka-s")
    assert "kafka-safe" in plans
    assert "kafka-unclean" not in plans
    assert {"storm", "faults/storm"} & set(completed(shell, "plan", "show", "sto"))
    assert "kafka-safe" not in completed(shell, "campaign", "run", "kafka-s")


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")
def test_bash_takes_the_script_and_completes() -> None:
    script = f"""eval "$(_ACKLOSS_COMPLETE=bash_source {ACKLOSS})"
    COMP_WORDS=({ACKLOSS} run kafka-saf) COMP_CWORD=2
    _ackloss_completion {ACKLOSS} 2>/dev/null
    echo "${{COMPREPLY[@]}}" """
    done = subprocess.run(
        ["bash", "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["kafka-safe"]
