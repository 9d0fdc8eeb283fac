"""Ports of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """A TCP port of 127.0.0.1 that no other process is given while the block runs.

    The port is bound and not listened on. A server that sets `SO_REUSEADDR`, as those of the tests do, can
    listen on it, end, and listen on it again.
    """
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield int(reserved.getsockname()[1])
