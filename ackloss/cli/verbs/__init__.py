"""One module per verb, found by its name; each defines one click command of that name."""
