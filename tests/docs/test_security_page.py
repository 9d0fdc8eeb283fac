"""docs/security.md: every command runs in the order of the page, against servers that it starts."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import flight_client
import lance_core
from support.servers.server import RunningServer, start_server

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")


@pytest.mark.long
def test_the_commands_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers get a free port and the address that clients of this machine can reach."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    lance_core.write_dataset({"id": [1, 2, 3]}, tmp_path / "served" / "trips.lance")
    server: RunningServer | None = None
    kinds = set()
    try:
        for number, block in enumerate(re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)):
            text = block.replace("/data/lance", str(tmp_path / "served"))
            if text.startswith("lance-flight serve"):
                if server is not None:
                    assert server.stop() == 0
                words = shlex.split(text.replace("8815", "0").replace("\\\n", ""))
                at = words.index("--advertise") if "--advertise" in words else len(words)
                options = [*words[3:at], *words[at + 2 :]]
                server = start_server(tmp_path / "served", tmp_path / f"server-{number}.log", *options)
                kinds.add("serve")
                continue
            if server is not None:
                port = server.uri.rpartition(":")[2]
                text = text.replace("grpc+tls://lance-1.example:8815", f"grpc+tls://127.0.0.1:{port}")
                text = text.replace("grpc://127.0.0.1:8815", f"grpc://127.0.0.1:{port}")
            done = subprocess.run(
                ["bash", "-eu", "-o", "pipefail", "-c", text], capture_output=True, text=True
            )
            assert done.returncode == 0, (text, done.stdout, done.stderr)
            kinds.update(re.findall(r"^lance-flight (\w+)", text, re.MULTILINE))
        assert server is not None
        client = flight_client.connect(server.uri, token=(tmp_path / "ben.token").read_text().strip())
        assert client.dataset("trips").count_rows() == 3
        with pytest.raises(flight_client.NotAuthenticatedError):
            flight_client.connect(server.uri, token="another").datasets()
    finally:
        if server is not None:
            server.kill()
    assert {"serve", "token", "config"} <= kinds
