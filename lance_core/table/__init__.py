"""Tables: versions, fragments, deletions and row ids."""
