"""Writing tables: record batches become data files, and data files become a new version."""
