"""Commands of documents, run as a reader would type them, against the servers that the documents start."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from support.servers.server import RunningServer, start_server


@dataclass
class DocumentedCommands:
    """The working directory and the servers of a document."""

    folder: Path
    served: Path
    servers: list[RunningServer] = field(default_factory=list)
    ports: dict[str, str] = field(default_factory=dict)
    """Ports of the document, and the free ones that are used instead."""

    def run(self, page: Path) -> list[str]:
        """Run the `sh` blocks of a page in order, and return their output.

        A block that begins with `lance-flight serve` starts a server. `/data/lance` is the served folder. A
        server on a port that the page used before replaces all servers.
        """
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        return [self._block(block) for block in blocks]

    def serve(self, *options: str) -> None:
        """Start a server with the options of a document, on free ports."""
        given = dict(zip(options[::2], options[1::2], strict=True))
        if "--settings" in given:  # the ports of the file, as options, which come first
            written = (self.folder / given["--settings"]).read_text(encoding="utf-8")
            found = re.findall(r"^(port|http_port) = (\d+)$", written, re.MULTILINE)
            given |= {f"--{name.replace('_', '-')}": port for name, port in found}
            given["--settings"] = str(self.folder / given["--settings"])
        port = given["--port"]
        if port in self.ports:
            self.stop()
        http_port = given.get("--http-port")
        given |= {name: "0" for name in ("--port", "--http-port") if name in given}
        log = self.folder / f"server-{len(self.ports)}-{port}.log"
        words = [word for pair in given.items() for word in pair]
        server = start_server(self.served, log, *words)
        self.servers.append(server)
        self.ports[port] = server.uri.rpartition(":")[2]
        if http_port is not None:
            self.ports[http_port] = server.http.rpartition(":")[2]

    def stop(self) -> None:
        """Stop all servers; each has to exit with 0."""
        while self.servers:
            assert self.servers.pop().stop() == 0

    def kill(self) -> None:
        """End all servers whatever they do."""
        for server in self.servers:
            server.kill()

    def _block(self, block: str) -> str:
        text = block.replace("/data/lance", str(self.served))
        if text.startswith("lance-flight serve"):
            self.serve(*shlex.split(text.replace("\\\n", ""))[3:])
            return ""
        for documented, actual in self.ports.items():
            text = re.sub(rf"(?<=127\.0\.0\.1:){documented}\b", actual, text)
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", text],
            cwd=self.folder,
            env={**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        return done.stdout
