"""Decoders and encoders of pages: one folder per generation of the file format, one file per encoding.

`file_pages.py` has what all generations need to decode pages of many small files as one page.
"""
