"""Planning: which columns, fragments and row ranges a scan reads. No module here reads a data page."""
