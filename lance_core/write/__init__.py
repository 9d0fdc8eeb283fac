"""Writing tables: record batches to data files, data files to a new version."""
