"""Streaming queries that end."""

from __future__ import annotations

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.readwriter import DataStreamWriter

TIMEOUT_S = 250
_SLOW_START = "Python worker failed to connect back"
"""Spark gives the process of a streaming source ten seconds to begin, which a busy machine may need."""


def run_to_the_end(writer: DataStreamWriter, attempts: int = 5) -> None:
    """Run a streaming query until it has done what there is; errors are those of the query."""
    for attempt in range(1, attempts + 1):
        query = writer.start()
        try:
            assert query.awaitTermination(TIMEOUT_S)
            return
        except StreamingQueryException as error:
            if _SLOW_START not in str(error) or attempt == attempts:
                raise
        finally:
            query.stop()
