"""Index files of other writers, which are rewritten when a compaction moves rows.

kinds.py, scalar.py, text.py, vector.py   kinds of indices, and how the files of each are rewritten
copying.py                                reading an index file, and writing its copy
moved_rows.py, row_sets.py                new addresses of moved rows; bitmaps of rows
"""
