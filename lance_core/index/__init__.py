"""Files of indices, one segment at a time. Nothing here reads a table or commits.

row_sets.py      sets of row keys as index files contain them
vector/          vector indices
text/            full text indices
moving/          segments of any kind, rewritten with new row addresses after a compaction
"""
