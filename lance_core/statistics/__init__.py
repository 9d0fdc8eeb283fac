"""Statistics of the values of pages and zones, in one form for all file versions.

column_statistics.py, column_facts.py           the form: one Arrow table per column; for pruning
collect.py                                      bounds and counts of arrays
zone_statistics.py, cache.py, disk_cache.py     statistics that scans gather, in memory and on disk
page_recorder.py, file_buffer.py                statistics and checksums in 2.x files: written and read
bound_encoding.py, checksummed_batch.py         bytes of bounds; a record batch with a checksum
file_checksums.py                               checking a file against its checksums
v0_1.py                                         statistics in 0.1 files
intervals.py, prune.py                          what a filter may give in a range of rows; pruning
"""
