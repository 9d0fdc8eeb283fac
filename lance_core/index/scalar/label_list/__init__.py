"""Label list index: a set of row keys per element of the lists of a column.

Source: docs/format.md, "Index files".
"""
