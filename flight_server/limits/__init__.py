"""Limits: how many calls run, and how much memory they take."""
