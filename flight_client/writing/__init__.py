"""Writes of rows to a dataset.

upload          one stream of rows to a server
staged_writes   streams of rows that one commit makes a version of
writes          the methods of `Client`
"""
