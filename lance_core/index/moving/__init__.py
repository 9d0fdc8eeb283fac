"""Segments of any kind, rewritten with new row addresses when a compaction moves rows.

kinds.py, scalar.py, text.py, vector.py   kinds of indices, and how the files of each are rewritten
copying.py                                reading an index file, and writing its copy
moved_rows.py, moved_sets.py              new addresses of moved rows; bitmaps with the new addresses
reused_fragments.py                       moves of rows that a fragment reuse index describes
"""
