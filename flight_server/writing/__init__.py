"""Writing: uploads, staged writes and commits, free of Flight types."""
