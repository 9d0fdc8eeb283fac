"""Sources of expression trees: SQL text, Substrait messages and PyArrow expressions.

sql, sql_reader              SQL text: sqlglot parses it, the reader turns its tree into nodes
long_lists, shapes           lists of constants, and texts that differ only in constants: no parser runs
plain_shapes                 such texts that only compare columns with constants: not even the reader runs
arrow_type_names             types by the names that `arrow_cast` takes
substrait, substrait_values  Substrait messages, their types and literals
arrow                        PyArrow expressions
complexity_limits            limits on the size of filters and expressions
"""
