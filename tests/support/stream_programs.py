"""Streaming queries as programs of their own, so that tests can kill them.

    python -m support.stream_programs copy   <uri> <table> <source> <checkpoint> <app_id or -> <batches>
    python -m support.stream_programs follow <uri> <table> <target> <checkpoint>

`copy` writes the numbers of files in the folder `source`, one file per batch, and prints the batches that are
done. `follow` reads the versions of a table, one per batch, and puts the numbers of each batch into a file
named by the number of the batch.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import spark_pipeline
from support.spark import SETTINGS


def copy(uri: str, table: str, source: str, checkpoint: str, app_id: str, batches: str) -> None:
    spark = spark_pipeline.session("copy", "local[2,4]", **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    print("ready", flush=True)
    rows = spark.readStream.schema("n bigint").option("maxFilesPerTrigger", 1).json(source)
    writer = rows.writeStream.format("lance_flight").options(uri=uri, table=table, create="true")
    if app_id != "-":
        writer = writer.option("app_id", app_id)
    query = writer.option("checkpointLocation", checkpoint).start()
    last = -1
    while last + 1 < int(batches):
        if not query.isActive:
            raise SystemExit(str(query.exception()))
        progress = query.lastProgress
        if progress is not None and progress["batchId"] > last and progress["numInputRows"]:
            last = progress["batchId"]
            print(f"batch {last}", flush=True)
        time.sleep(0.01)
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
