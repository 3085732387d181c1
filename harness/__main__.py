"""`ackloss`, also as `python -m harness`. A process that judges imports this module too."""

import sys

from harness.errors import Interrupted


def main() -> None:
    """The command line."""
    try:
        from harness.cli import main
    except KeyboardInterrupt:
        print("ackloss: interrupted", file=sys.stderr)
        sys.exit(Interrupted.exit_code)
    main()


if __name__ == "__main__":
    main()
