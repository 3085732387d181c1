"""Graphs of transactions that depend on each other, for all checkers that look for cycles."""
