"""Data files of version 2.0."""
