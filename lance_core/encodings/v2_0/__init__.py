"""Array encodings of 2.0 files."""
