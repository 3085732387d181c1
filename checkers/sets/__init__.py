"""The set checker: what became of every element of a set that was added to and read as a whole.

Definitions are those of Jepsen's `checker/set` and `checker/set-full` (jepsen-io/jepsen, 0.3.x),
apart from the differences that `checkers.sets.outcomes` and `checkers.sets.final` name.
"""
