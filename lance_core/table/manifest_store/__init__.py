"""Manifest stores, which decide which writer makes a version if the storage of a table cannot decide it.

Some storages can neither create a file exclusively nor put a file under a condition. Then a separate store
keeps one row per version. The writer that inserts the row has made the version. The manifest stays in the
storage:

  1. put the manifest under a unique name          no reader sees it
  2. insert the row, which names this file         the version exists
  3. copy the manifest to its final name
  4. change the row to the final name, remove the first copy

If a reader or writer finds a row between steps 2 and 4, it finishes the steps of the writer that died.

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
