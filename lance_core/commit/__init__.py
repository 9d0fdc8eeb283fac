"""Commits: how a transaction becomes the next version, or is refused."""
