"""Decoders and encoders of pages: one folder per generation of the file format, one file per encoding."""
