"""`ackloss`, also as `python -m ackloss`. A process that judges imports this module too."""

import signal
import sys

from harness.interruption import Interruption


def main() -> None:
    """The command line."""
    interruption = Interruption()
    try:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else it is ignored
            signal.signal(signal.SIGINT, lambda _, frame: interruption.interrupt(frame))
        from ackloss.cli import main

        main()
    except KeyboardInterrupt:
        from harness.errors import Interrupted

        print("ackloss: interrupted", file=sys.stderr)
        sys.exit(Interrupted.exit_code)


if __name__ == "__main__":
    main()
