"""Fault families, one file each: policies that turn chosen nodes into acts of levers."""
