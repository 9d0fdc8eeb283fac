"""The Lance columnar format: datasets opened and read, with the names of the reference library."""
