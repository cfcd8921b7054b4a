"""Benchmarks: each prints a table; its last line is a JSON object, of replay and index if asked."""
