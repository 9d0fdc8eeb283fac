"""A server on the demo dataset, as a user would start it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def demo_server() -> Iterator[str]:
    """URI of a `lance-flight serve` process on ``demo/data``; its first line on stdout."""
    program = Path(sys.executable).with_name("lance-flight")
    with subprocess.Popen(
        [program, "serve", ROOT / "demo" / "data", "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        uri = server.stdout.readline().strip()
        assert uri.startswith("grpc://"), f"no URI on the first line: {uri!r}"
        yield uri
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=60) == 0
