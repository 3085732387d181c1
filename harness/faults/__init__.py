"""Faults: which nodes and when, the journal, applying, proving and undoing."""
