"""Changes of columns.

add, alter, drop, join     changes of all fragments
update             other values for some rows of one fragment, found by key
staged_columns     new columns that many writers prepare and one commit adds
replaced_columns   other values of columns, prepared and committed in the same way
column_sources     where values of new columns come from: expressions, a function, a stream
column_change      new columns of every fragment, and their commit
column_file        the data file with new columns of one fragment
fragment_columns   the same from batches that include deleted rows; base of staged and replaced columns
schema_evolution   schemas of the next version
replaceable        check of columns that are replaced as a whole
allowed_casts      types that columns can be cast to
key_lookup         rows found by key
"""
