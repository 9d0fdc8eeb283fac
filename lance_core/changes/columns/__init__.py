"""Changes of columns: add, alter, drop, join, replace."""
