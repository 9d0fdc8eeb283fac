"""Reads of one version of a dataset.

opening           from a name and a version to a `Snapshot`
scanner           a scan: its plan, its rows, and their statistics
filter_pushdown   a condition, split into a part for the server and a part for the client
ordering          columns to sort by
search, hybrid    rows with the nearest vectors or with words; both rankings joined
lookup            a stream for many takes of single rows
blobs             large values as files; blob_reads: the methods of a dataset that return them
polars_scan       a `LazyFrame` of Polars
"""
