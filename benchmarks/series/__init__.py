"""How costs grow with rows, columns, fragments, versions, deletions and clients, beside the peers."""
