"""Data files of versions 2.1 and 2.2."""
