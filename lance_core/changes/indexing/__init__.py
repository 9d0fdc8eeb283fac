"""Indices of a table: built, extended and merged, and committed.

kinds.py     the kinds of indices that can be built
column.py    the column of an index, and its rows
segment.py   one segment is built
staged.py    a segment is built by several machines in one directory
create.py    an index is built and committed
facts.py      statistics of indices
optimize.py  rows are added to indices, and segments are joined
"""
