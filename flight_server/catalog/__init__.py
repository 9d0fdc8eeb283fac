"""The catalog: where the datasets of a root are, on disk or in an object store."""
