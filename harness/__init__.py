"""ackloss: how many acknowledged writes does a cluster lose, with which settings, which faults?

`harness.protocols` is the first folder to read: it holds the nouns. `harness.run.runner` runs one
plan.
"""

__version__ = "0.1.0"
