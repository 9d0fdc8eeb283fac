"""An Arrow Flight server over Lance datasets: requests in, streams of record batches out."""
