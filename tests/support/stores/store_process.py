"""The server of a store as a process of its own, with its children."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from support.servers.network import reserved_port

START_TIMEOUT_S = 60


@contextmanager
def store_process(command: Callable[[str], Sequence[str]], log: Path) -> Iterator[int]:
    """Start the command that is given for a free port of 127.0.0.1, and end it afterwards; the port."""
    with ExitStack() as stack:
        port = stack.enter_context(reserved_port())
        output = stack.enter_context(open(log, "wb"))
        process = subprocess.Popen(command(str(port)), stdout=output, stderr=output, start_new_session=True)
        stack.callback(process.wait)
        stack.callback(os.killpg, process.pid, signal.SIGTERM)
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
