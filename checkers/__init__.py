"""Checkers: pure functions from one run's rows to findings; Spark deals the runs out."""
