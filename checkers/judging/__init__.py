"""Judging runs with checkers: one run, many in one Spark session, and the verdict."""
