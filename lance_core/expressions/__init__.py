"""Expressions: filters and computed columns, from text or bytes to Arrow arrays.

tree.py                                   the nodes, with names and types resolved
sql.py, sql_reader.py, sql_types.py       SQL text: sqlglot parses it, the reader turns its tree into nodes
arrow_type_names.py                       types by the names that `arrow_cast` takes
substrait.py, arrow.py                    the other two sources: Substrait messages, PyArrow expressions
builders.py, coercion.py, column_names.py typed nodes from operands; types of literals; names of columns
aggregates.py                             functions of groups of rows, such as `sum`
evaluate.py                               nodes to arrays; arithmetic, comparisons, casts, patterns beside it
functions/                                the functions by name, such as `upper` and `date_trunc`
"""
