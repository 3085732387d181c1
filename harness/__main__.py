"""`python -m harness` is `ackloss`."""

from harness.cli import main

main()
