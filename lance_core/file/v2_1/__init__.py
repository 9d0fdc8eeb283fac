"""Data files of versions 2.1 and 2.2.

`reader` reads columns of a file, `joined_files` those of many small files together, `leaves` has the leaves
of a column; `writer` writes a file, `supported_types` says which types it refuses.
"""
