"""Several servers of one root that name each other."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from support.servers.network import reserved_port
from support.servers.server import RunningServer, start_server


@dataclass
class Cluster:
    """Servers by number, on ports that are chosen before the first one starts."""

    root: Path
    logs: Path
    size: int
    scheme: str = "grpc"
    ports: list[int] = field(default_factory=list)
    servers: dict[int, RunningServer] = field(default_factory=dict)
    _reserved: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.ports = [self._reserved.enter_context(reserved_port()) for _ in range(self.size)]

    @property
    def uris(self) -> list[str]:
        return [f"{self.scheme}://127.0.0.1:{port}" for port in self.ports]

    def start(self, number: int, *options: str) -> RunningServer:
        """Start one server, or start it again; it is told of all servers."""
        log = self.logs / f"server-{number}-{time.monotonic_ns()}.log"
        self.servers[number] = start_server(
            self.root,
            log,
            *("--port", str(self.ports[number]), "--peers", ",".join(self.uris)),
            *("--peer-check-interval", "0.2", "--drain-grace", "10", *options),
        )
        return self.servers[number]

    def stop(self) -> None:
        for server in self.servers.values():
            server.kill()
        self._reserved.close()
