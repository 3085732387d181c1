"""One module per verb, found by its name; each holds one click command of that name."""
