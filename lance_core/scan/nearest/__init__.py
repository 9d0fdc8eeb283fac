"""Search of the rows whose vectors are nearest to queries."""
