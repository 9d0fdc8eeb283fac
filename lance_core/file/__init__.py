"""Data files: the container and what is in it."""
