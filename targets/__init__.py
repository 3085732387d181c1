"""Systems under test, one file or folder each."""
