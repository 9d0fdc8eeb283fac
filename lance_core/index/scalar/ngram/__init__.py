"""N-gram index: a set of row keys per trigram of the texts of a column.

Source: docs/format.md, "Index files".
"""
