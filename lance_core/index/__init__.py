"""Index files of other writers: read and written again when compaction moves rows."""
