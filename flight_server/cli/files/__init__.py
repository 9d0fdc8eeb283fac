"""Files at the command line: CSV, JSON, Arrow and Parquet, read into datasets and written from them."""
