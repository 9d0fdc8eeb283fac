"""Changes of rows.

delete, update, merge_insert     the three changes
merge_plan         actions of a merge per kind of row
key_matches        pairs of source rows and rows of the table with equal keys
merged_rows        new values of matched and inserted rows
new_rows           writer of moved and inserted rows
removal            deletion files for rows that go
row_change         one attempt at a change: its transaction, files and counts; the commit
"""
