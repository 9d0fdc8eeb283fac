"""The Spark session that tests of a process share, and how its Java ended if it did."""

from __future__ import annotations

import warnings
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

import spark_pipeline
from support.spark.settings import SETTINGS

_MEANINGS = {
    0: "its standard input was closed, or a test stopped it",
    50: "an error in a task that Spark takes for the end of the process, which a local session shares",
    52: "a task ran out of memory, which in a local session ends the process",
    -6: "it crashed: look for hs_err_pid*.log",
    -9: "somebody killed it",
    137: "somebody killed it",
    134: "it crashed: look for hs_err_pid*.log",
    129: "SIGHUP",
    143: "SIGTERM",
}
"""Meanings of the exit codes of Java."""


class SharedSession:
    """Begun when it is first asked for, and again when its Java is gone."""

    def __init__(self) -> None:
        self._session: SparkSession | None = None

    def running(self) -> SparkSession:
        """Return the session."""
        if self._session is not None and self.ending() is not None:
            self._forget()
        if self._session is None:
            self._session = spark_pipeline.session("tests", "local[2,4]", **SETTINGS)
            self._session.sparkContext.setLogLevel("OFF")
        return self._session

    def ending(self) -> str | None:
        """Return how Java ended; None while it runs."""
        gateway = SparkContext._gateway
        code = None if gateway is None else gateway.proc.poll()
        if code is None:
            return None
        return f"the Java of the session ended with {code}: {_MEANINGS.get(code, 'for no reason it names')}"

    def stop(self) -> None:
        if self._session is not None and self.ending() is None:
            self._session.stop()

    def _forget(self) -> None:
        """Let go of a session that nobody answers for: what is left of it would be handed out again."""
        assert self._session is not None
        context, gateway = self._session.sparkContext, SparkContext._gateway
        with suppress(Py4JError, OSError), warnings.catch_warnings(action="ignore"):
            context.stop()
        context.stop()  # the rest, which needs no Java
        gateway.close()
        gateway.proc.stdin.close()
        SparkContext._gateway = SparkContext._jvm = None
        SparkSession._instantiatedSession = SparkSession._activeSession = None
        self._session = None
