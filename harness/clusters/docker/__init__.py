"""Nodes as pods of Docker containers, and what is left of them."""
