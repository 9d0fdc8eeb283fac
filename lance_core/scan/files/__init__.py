"""Open data files: kept open in a cache, and checked against their checksums on request."""
