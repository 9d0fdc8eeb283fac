"""Scalar indices, one folder per kind: `build.py` writes the files of a segment.

types.py, parameters.py   columns and options that the kinds accept
"""
