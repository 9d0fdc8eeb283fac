"""Commits: a transaction becomes the next version of a table, or is refused.

commit.py                         attempts to put the next manifest, and what happens between them
conflicts.py, conflict_rules.py   what a committed transaction means for another transaction
rebase.py                         applying a transaction to a newer version
next_manifest.py, operations/     the next manifest: one file per operation of a transaction
index_section.py                  the index entries of the next manifest
lineage_encoding.py               the bytes of row ids and row versions
transaction_lookup.py             finding the version that a transaction made
stream_progress.py                progress of a stream, recorded in the settings of the table
"""
