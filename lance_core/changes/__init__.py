"""Changes to datasets: what reads rows, writes files and commits a version of them."""
