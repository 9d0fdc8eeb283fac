"""Modules that Python workers of Spark load at the start."""

from __future__ import annotations

import subprocess
import sys


def test_workers_do_without_pandas() -> None:
    """Loading pandas doubles the time to start a worker, and the time of garbage collections after every
    task.
    """
    program = (
        "import sys, pyarrow as pa, spark_pipeline.data_source, flight_client.writing.upload as upload;"
        "upload.rows_of(iter([]), pa.schema([]));"
        "print(sorted({'pandas', 'pyarrow.dataset', 'polars', 'duckdb'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
