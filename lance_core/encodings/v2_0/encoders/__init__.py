"""Encoders of 2.0 pages. They use only encodings that every release of the reference since 0.15 reads."""
