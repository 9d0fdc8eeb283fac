"""Benchmarks against the reference library and against a plain Flight server on top of it; see README.md."""
