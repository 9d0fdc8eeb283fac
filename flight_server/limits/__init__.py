"""Limits: how many calls run, how many bytes callers get, which stream sends, how much memory is taken."""
