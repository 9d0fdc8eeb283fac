"""Changes of rows: delete, update, merge."""
