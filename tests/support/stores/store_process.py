"""The server of a store as a process of its own, with its children."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

START_TIMEOUT_S = 60


@contextmanager
def store_process(command: Callable[[str], Sequence[str]], log: Path) -> Iterator[int]:
    """Start the command that is given for a free port of 127.0.0.1, and end it afterwards; the port."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = int(reserved.getsockname()[1])
    with open(log, "wb") as output:
        process = subprocess.Popen(command(str(port)), stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.05)
        yield port
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
