"""What Python workers of Spark load before they do anything."""

from __future__ import annotations

import subprocess
import sys


def test_workers_do_without_pandas() -> None:
    """It doubles the time that a worker needs to begin, and that of the collections after every task."""
    program = (
        "import sys, pyarrow as pa, spark_pipeline.data_source, flight_client.upload as upload;"
        "upload.rows_of(iter([]), pa.schema([]));"
        "print(sorted({'pandas', 'pyarrow.dataset', 'polars', 'duckdb'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
