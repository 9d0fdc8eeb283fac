"""Expressions: filters and computed columns, from text or bytes to Arrow arrays.

tree.py                                   the nodes, with names and types resolved
parsing/                                  the sources: SQL text, Substrait messages, PyArrow expressions
sql_types.py                              types and intervals in SQL text
builders.py, coercion.py, column_names.py typed nodes from operands; types of literals; names of columns
preimages.py                              conditions on functions of a column as conditions on the column
aggregates.py                             functions of groups of rows, such as `sum`
evaluate.py                               nodes to arrays; arithmetic, comparisons, casts, patterns beside it
functions/                                the functions by name, such as `upper` and `date_trunc`
"""
