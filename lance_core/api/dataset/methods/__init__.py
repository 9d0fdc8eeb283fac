"""The methods of `LanceDataset`, which `lance_core.api.dataset.lance_dataset` joins to one class.

    opened              the base of all of them: the opened version, and the move to another version
    reading             scans, takes and samples
    arrow_dataset       the methods of `pyarrow.dataset.Dataset`, for engines
    blob_reads          blobs of single rows
    facts               sizes, files, ids and the session
    row_changes         insert, delete, update, merge
    column_changes      add, alter, drop, merge
    history             versions, clones, settings; tags_and_branches: the objects of `tags` and `branches`
    commits             commits of operations whose files exist
    indexing            the list of indices; index_building: building them

Most processes only read, so code that only changes need is imported at the first change.
"""
