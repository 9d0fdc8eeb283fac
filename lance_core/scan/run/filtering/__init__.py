"""Scans with a filter: a first phase finds the matching rows, a second phase decodes them.

filtered_scan    the jobs of both phases
filter_windows   the first phase: windows of the rows that pruning left
index_masks      the rows that indices find
row_filter       the filter on the rows of one fragment; page_conditions: simple conditions on pages
matching_rows    the second phase: batches of matching rows
"""
