"""Writing tables: record batches become data files, and data files become a new version.

`single_file` writes one data file without a table.
"""
