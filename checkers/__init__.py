"""Checkers, one file per family: pure Spark functions from histories to findings."""
