"""Search of rows by their vectors and by their texts at once."""
