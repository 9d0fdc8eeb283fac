"""Full text searches in a table: rows that contain words, with their scores.

columns      columns that can be searched, and their indices
views        which rows of an index a search may find, and where they are now
unindexed    rows that no index covers: their texts are read
ranking      a whole query -> rows and scores
search       a scan with a full text query
"""
