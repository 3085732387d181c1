"""`ackloss`, also as `python -m harness`. A process that judges imports this module too."""


def main() -> None:
    """The command line."""
    from harness.cli import main

    main()


if __name__ == "__main__":
    main()
