"""Messages of failures in one line. Errors come from the driver, from Java and from executors."""

from __future__ import annotations

import re

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from flight_client import LanceError

FORESEEN = (LanceError, PySparkException, Py4JError, OSError)
"""Errors that a user can solve."""

# Last line of a traceback of a Python worker, which Spark puts into its own messages.
_OF_WORKER = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?([A-Za-z_]\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
_IN_JAVA = re.compile(
    r"^(?:Caused by: |: )?(?:[a-z]\w*\.)+([A-Z]\w*(?:Error|Exception)): (.+)$", re.MULTILINE
)
_FAILED_READ = "[FAILED_READ_FILE"
_STATE = re.compile(r"\.?\s*SQLSTATE: \w+\s*$")
_TRACEBACK = "Traceback (most recent call last)"


def message_of(error: BaseException) -> str:
    """Return one line without tracebacks, for a step of a pipeline with its name."""
    text = str(error)
    if _TRACEBACK in text:
        found = _OF_WORKER.findall(text.split(_TRACEBACK)[-1])
        text = found[0][1] if found else text.partition(_TRACEBACK)[0]
    elif isinstance(error, Py4JError):
        found = _IN_JAVA.findall(text)
        if found and _FAILED_READ in found[0][1]:  # names the file; the causes say why
            text = ": ".join(_STATE.sub("", message).strip() for _, message in found)
        else:
            text = found[0][1] if found else text
    lines = text.strip().splitlines()
    line = " ".join(lines[0].split()) if lines else type(error).__name__
    return line if error.__cause__ is None else f"{line}: {message_of(error.__cause__)}"
