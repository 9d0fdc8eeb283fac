"""Progress of Spark in one line on terminals."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from rich.console import Console

_SECONDS = 0.5


@contextmanager
def shown_progress(spark: SparkSession, console: Console) -> Iterator[None]:
    """Show how many tasks of the running stages are done, until the context ends."""
    if not console.is_terminal:
        yield
        return
    is_over = threading.Event()
    with console.status("starting") as status:

        def watch() -> None:
            while not is_over.wait(_SECONDS):
                status.update(_running(spark))

        watcher = threading.Thread(target=watch, name="lance-flight-progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            is_over.set()
            watcher.join()


def _running(spark: SparkSession) -> str:
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    running = [stage for stage in stages if stage is not None]
    if not running:
        return "planning"
    done = sum(stage.numCompletedTasks for stage in running)
    return f"{done} of {sum(stage.numTasks for stage in running)} tasks"
