"""Levers: the mechanism that changes one thing on a node, can undo it, and can prove it."""
