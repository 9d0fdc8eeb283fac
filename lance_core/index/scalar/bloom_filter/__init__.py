"""Bloom filter index: a filter of the values of each zone of rows.

Source: docs/format.md, "Index files".
"""
