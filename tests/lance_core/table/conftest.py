import pyarrow as pa
import pytest


@pytest.fixture
def table() -> pa.Table:
    """Ten rows of a number, a text and a struct."""
    return pa.table(
        {
            "number": pa.array(range(10), pa.int32()),
            "text": [f"row {row}" for row in range(10)],
            "point": [{"x": row, "y": float(row)} for row in range(10)],
        }
    )
