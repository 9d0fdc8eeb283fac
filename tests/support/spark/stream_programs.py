"""Streaming queries as programs of their own, so that tests can kill them.

    python -m support.spark.stream_programs copy   <uri> <table> <source> <checkpoint> <app_id or ->
    python -m support.spark.stream_programs follow <uri> <table> <target> <checkpoint>

`copy` writes the numbers of files in the folder `source`, one file per batch; two where a driver died after
it had noted the first and before it had noted the batch. `follow` reads the versions of a table, one per
batch, and puts the numbers of each batch into a file named by the number of the batch.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import spark_pipeline
from support.spark.settings import SETTINGS


def copy(uri: str, table: str, source: str, checkpoint: str, app_id: str) -> None:
    spark = spark_pipeline.session("copy", "local[2,4]", **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    print("ready", flush=True)
    rows = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 1).json(source)
    writer = rows.writeStream.format("lance_flight").options(uri=uri, table=table, create="true")
    if app_id != "-":
        writer = writer.option("app_id", app_id)
    query = writer.option("checkpointLocation", checkpoint).start()
    query.processAllAvailable()
    query.stop()
    spark.stop()
    print("done", flush=True)


def follow(uri: str, table: str, target: str, checkpoint: str) -> None:
    spark = spark_pipeline.session("follow", "local[2,4]", **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    print("ready", flush=True)

    def keep(frame: Any, number: int) -> None:
        rows = sorted(row["n"] for row in frame.collect())
        place = Path(target) / f"{number}.json"
        before = place.with_suffix(".new")
        before.write_text(json.dumps(rows))
        before.replace(place)
        print(f"batch {number}", flush=True)

    rows = spark.readStream.format("lance_flight").options(uri=uri, table=table, maxVersionsPerTrigger=1)
    query = rows.load().writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    print("done", flush=True)


if __name__ == "__main__":
    {"copy": copy, "follow": follow}[sys.argv[1]](*sys.argv[2:])
