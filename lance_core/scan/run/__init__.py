"""Running a plan: windows of rows, decoded ahead within a budget, become batches.

execute (the door) -> windows, readahead, budget, window_batches, batch_cutter, even_batches: streams.
table_reads: reads for a whole table. page_cuts: ranges of rows, divided at the ends of pages.
filtering/: scans with a filter. strategy: the choices of such a scan.
small_fragments, fragment_groups: scans of many small fragments. stored_scan: rows in the form of data files.
sorting, groups: `order_by` and aggregates. float_order: floats as integers in their order.
"""
