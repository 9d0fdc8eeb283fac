"""Manifest stores, which decide which writer makes a version if the storage of a table cannot decide it.

Some storages can neither create a file exclusively nor put one on a condition. Then a store of its own
remembers one row per version; who inserts the row has made the version. The bytes stay in the storage:

    1. put the manifest under a name of its own       nobody sees it
    2. insert the row, which names it                 the version is there
    3. copy the manifest to its final name
    4. let the row name that, remove the first copy

Whoever meets a row between 2 and 4, reader or writer, finishes what a dead writer left.
Source: docs/format.md, "Manifest stores".
"""

from lance_core.table.manifest_store.choice import forget_table, manifest_store_of
from lance_core.table.manifest_store.publish import latest_in_store, path_in_store, publish_in_store
from lance_core.table.manifest_store.store import ManifestRow, ManifestStore

__all__ = [
    "ManifestRow",
    "ManifestStore",
    "forget_table",
    "latest_in_store",
    "manifest_store_of",
    "path_in_store",
    "publish_in_store",
]
