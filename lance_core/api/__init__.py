"""Datasets as a caller holds them, with the names, arguments and results of the reference library."""
