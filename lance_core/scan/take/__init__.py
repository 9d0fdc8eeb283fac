"""Taking: single rows by offset, row id or row address."""
