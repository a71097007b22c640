"""Benchmarks: each program times one thing, prints a table, and is run by a make target of its name."""
