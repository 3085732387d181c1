"""One run of a plan, from the resolved plan to the final read."""
