"""Data files of version 2.0.

`reader` reads columns of a file, `joined_files` those of many small files together, `nodes` has the tree of a
field; `writer` writes a file.
"""
