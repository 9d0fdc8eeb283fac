"""Scans and takes: rows of one version, planned from metadata and then read."""
