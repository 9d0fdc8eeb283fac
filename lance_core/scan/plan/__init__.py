"""Planning: which columns and row ranges a scan reads. No module here reads a data page."""
