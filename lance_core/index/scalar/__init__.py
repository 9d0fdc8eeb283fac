"""Scalar indices, one folder per kind: `search.py` answers questions, `build.py` writes a segment.

types.py, parameters.py   columns and options that the kinds accept
questions.py, answers.py  conditions on one column, and the row keys that meet them
sorted_keys.py            values in the order of indices, and binary searches in them
zones.py                  consecutive rows that zone maps and Bloom filters describe together
kinds.py                  the kinds that searches use, by name
"""
