"""Files of indices, one segment at a time. Nothing here reads a table or commits.

segments.py      opened segments: what a search reads of their files, and what the cache keeps
index_file.py, cache.py   one open file; the cache of a session
row_sets.py      sets of row keys as index files contain them
row_mask.py      candidates for a condition, by fragment
scalar/          indices on values
vector/          vector indices
text/            full text indices
moving/          segments of any kind, rewritten with new row addresses after a compaction
"""
