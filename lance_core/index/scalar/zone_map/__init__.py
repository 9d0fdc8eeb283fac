"""Zone map: the least and the greatest value of each zone of rows.

Source: docs/format.md, "Index files".
"""
