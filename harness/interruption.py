"""When an interrupt may raise: not while a module is imported.

What is raised inside an import can be lost: in a callback, in Cython code, in a library that does
without a module that cannot be imported. The command would then go on to its end. It imports
little: before its import, an interrupt ends in a traceback.
"""

from __future__ import annotations

import sys
from types import FrameType

_IMPORTING = "<frozen importlib._bootstrap>"


class Interruption:
    """Raises KeyboardInterrupt in this thread. An import that began since this was made, and is
    still going on, is waited for."""

    def __init__(self) -> None:
        self._outside = _imports(sys._getframe())

    def interrupt(self, frame: FrameType | None) -> None:
        """Raise it in a handler of signals, which `frame` is an argument of: at once, or where the
        outermost import returns. The second time at once anyway, as an import may hang."""
        if sys.getprofile() == self._at_event or not self._imports(frame):
            raise KeyboardInterrupt
        sys.setprofile(self._at_event)

    def _at_event(self, frame: FrameType, event: str, _: object) -> None:
        """See sys.setprofile: what it raises is raised where the frame returns to."""
        ends = event == "return" and frame.f_code.co_filename == _IMPORTING
        if ends and not self._imports(frame.f_back):
            sys.setprofile(None)
            raise KeyboardInterrupt

    def _imports(self, frame: FrameType | None) -> bool:
        return _imports(frame) > self._outside


def _imports(frame: FrameType | None) -> int:
    """How many frames of Python's import system are in a stack."""
    found = 0
    while frame is not None:
        found += frame.f_code.co_filename == _IMPORTING
        frame = frame.f_back
    return found
