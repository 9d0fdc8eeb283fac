"""Series that show how costs grow with rows, columns, fragments, versions, deletions and clients."""
