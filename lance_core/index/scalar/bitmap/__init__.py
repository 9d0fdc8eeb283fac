"""Bitmap index: a set of row keys per value. A label list index has the same file.

Source: docs/format.md, "Index files".
"""
