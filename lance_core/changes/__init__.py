"""Changes of datasets: read rows, write files, commit a version.

rows/              delete, update and merge rows
columns/           add, drop, alter, join and replace columns
compaction/        rewrite small fragments as larger ones
drop_index, settings     changes that write no data; `settings` also restores versions
retry              repeat a change on the newest version after a conflict
checked_reads      reads that always check pages against their checksums
source_rows        rows that a caller passes, for merges and joins
stored_rows        rows of a table in the form of data files, to be written again
"""
