"""Named schedules: one TOML file each, with `about` and either `faults` or a `mix`.

A plan uses one with `schedule = "NAME"`.
"""
