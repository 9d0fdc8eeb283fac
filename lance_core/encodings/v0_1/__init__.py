"""Encodings of 0.1 ("legacy") files: one reader per encoding, chosen by the type of the field alone."""
