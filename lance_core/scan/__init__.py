"""Scans and takes: rows of one version, planned from metadata and then read.

`scanner` has the scan that users call, `arguments` its arguments, `session` the caches and settings of reads,
`snapshot_reads` reads of a snapshot with its session, `guarded` keys for a caller who may not see all rows,
`rows` the rows of a plan, `ordered` rows in the order of columns, `aggregated` groups of them,
`explain` the pages that a scan reads,
`validate` the check of a version, `pandas_frame` frames of scans, `changes` the rows that differ between two
versions, `history` the versions as lists show them, `samples` random choices, `stored_bytes` the sizes of
fields, `single_file` one data file without a table. The rooms:

- `files`: open data files. `opened` is one file, `cache` the files that stay open, `data_files` the interface
  to them, `verified` the columns whose pages are compared with checksums.
- `plan`: what to read, from metadata alone. `options` has the options of a scan, `projection` its columns,
  `ordering` those that decide the order, `aggregation` aggregates,
  `bind` its expressions, `blob_nulls` blobs in them, `scan_plan` its fragments and row ranges;
  `nearest` is a search of vectors, `bind_nearest` binds it, `text_query` binds a search of texts,
  `fusion` joins both, `search_filter` has a search that filters the other, `search_projection` the columns of
  the result;
  `statistics` and `pruning` leave out rows, `index_questions` and `indices` find rows in indices.
- `read`: the columns of one fragment. `fragments` opens a fragment, `joined_fragments` many small ones
  together, `columns` has the kinds of columns,
  `row_columns` ids and addresses of rows, `live_rows` the rows that are not deleted, `row_selection` the
  values of chosen rows, `blobs` the values of blobs, `value_sizes` the sizes of values, `page_trace` a record
  of the pages that were read.
- `run`: from plans to batches. `execute` runs a plan, `filtered_scan` a plan with a filter among the rows of
  `index_masks`, `stored_scan` one for rows that are written again. `windows` and
  `table_reads` divide a plan at the rows of `page_cuts`; `filter_windows` and
  `row_filter` find matching rows, `page_conditions` without decoding the column,
  `matching_rows` divides them; `small_fragments` reads many small fragments in the groups of
  `fragment_groups`.
  `readahead` decodes ahead within a `budget`; `window_batches` decodes a window on one thread;
  `batch_cutter` cuts batches; `strategy` has the switches. `sorting` sorts rows by the `float_order` of
  floats, `groups` aggregates them, `even_batches` joins batches.
- `take`: single rows. `keys` and `address_finder` turn keys into row addresses, `row_taker` takes the rows,
  `open_fragments` and `taker_cache` keep files open, `blobs` opens blobs as files,
  `blob_parts` streams their bytes.
- `nearest`: rows with the nearest vectors. `search` runs a search, `exact` compares every vector, `indexed`
  asks the index that `vector_index` chose and joins what it does not cover, `comparing` compares the vectors
  of arrays, `candidates` keeps the best rows, `results` makes batches of them.
- `text_search`: rows that contain words. `search` runs a search, `ranking` joins the parts of a query,
  `columns` finds indices, `views` the rows of an index that may be found, `unindexed` reads other texts.
- `hybrid`: rows of both searches. `search` runs them, `fusing` joins their rankings, `filtered` returns the
  rows of one that the other finds, too.

Rooms import only rooms above them in this list; `tests/docs/test_scan_layers.py` checks this.
"""
