"""Vector indices: files that find the vectors nearest to a query without reading all vectors.

segment_search.py    the question that a search asks one segment, and what the segment answers
layouts.py           codes that are not stored row after row
"""
