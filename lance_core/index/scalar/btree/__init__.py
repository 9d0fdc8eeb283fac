"""B-tree: all values in order with their row keys, and the first and last value of each page.

Source: docs/format.md, "Index files".
"""
