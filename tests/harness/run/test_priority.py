"""The session of a load generator has a larger share while its load goes on, and no other has."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from harness.run.load import MOST_PER_S, NICE

OF_ITS_OWN = """
import os
from harness.run.load import larger_share, _nice
"""
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def printed(code: str, *, own_session: bool = True) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", OF_ITS_OWN + code],
        start_new_session=own_session,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@AS_ROOT
def test_a_session_of_its_own_has_a_larger_share_while_the_load_goes_on() -> None:
    """Also after a load that fails; one that would fill a core has none."""
    code = f"""
with larger_share(300) as larger:
    print(larger, _nice())
print(_nice())
try:
    with larger_share(300):
        raise ValueError
except ValueError:
    print(_nice())
for rate_per_s in (0, {MOST_PER_S + 1}):
    with larger_share(rate_per_s) as larger:
        print(larger, _nice())
"""
    assert printed(code) == ["True", str(NICE), "0", "0", "False", "0", "False", "0"]


def test_the_session_of_a_shell_is_left_as_it_is() -> None:
    code = """
before = _nice()
with larger_share(300) as larger:
    print(larger, _nice() == before)
"""
    assert printed(code, own_session=False) == ["False", "True"]


@AS_ROOT
def test_a_user_who_may_not_has_none() -> None:
    code = """
os.setuid(65534)
with larger_share(300) as larger:
    print(larger, _nice())
"""
    assert printed(code) == ["False", "0"]
