"""Checkers: pure functions from one run's rows to findings; Spark distributes the runs."""
