"""The proxy of docker/compose: nginx with its configuration before two servers."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np
import pyarrow as pa
import pytest

import flight_client
import lance_core
from flight_server.security.accounts import hash_token
from support.clients.raw_flight import call_on, command_descriptor
from support.runs.leftovers import REPOSITORY
from support.servers.network import reserved_port
from support.servers.secure_server import Certificate
from support.servers.server import RunningServer, start_server

CONFIGURATION = REPOSITORY / "docker" / "compose" / "nginx.conf"
TOKEN = "a token of the tests of the proxy"
ROWS = pa.table({"id": np.arange(1_000_000)})

pytestmark = [
    pytest.mark.long("needs nginx, which `make image-parts` installs"),
    pytest.mark.skipif(shutil.which("nginx") is None, reason="there is no nginx: make image-parts"),
]


@dataclass(frozen=True)
class Proxy:
    """A running proxy, its servers, and the certificate that clients check it with."""

    port: int
    servers: list[RunningServer]
    certificate: bytes
    process: subprocess.Popen[bytes]

    def client(self, token: str = TOKEN) -> flight_client.Client:
        uri = f"grpc+tls://127.0.0.1:{self.port}"
        return flight_client.connect(uri, token=token, tls_root_certs=self.certificate)

    def channel(self) -> grpc.Channel:
        credentials = grpc.ssl_channel_credentials(self.certificate)
        options = [("grpc.max_send_message_length", -1)]
        return grpc.secure_channel(f"127.0.0.1:{self.port}", credentials, options)


def _wait_until_it_listens(port: int) -> None:
    deadline = time.monotonic() + 30
    while True:
        with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port)):
            return
        assert time.monotonic() < deadline, "the proxy does not listen"
        time.sleep(0.05)


def _configuration(folder: Path, port: int, servers: list[RunningServer]) -> str:
    """Return the shipped configuration with the paths and addresses of this machine."""
    text = CONFIGURATION.read_text(encoding="utf-8").replace("/run/secrets/", f"{folder}/")
    text = text.replace("/tmp/nginx", f"{folder}/nginx").replace("listen 8815", f"listen 127.0.0.1:{port}")
    addresses = "".join(f"server {server.address};" for server in servers)
    text, count = re.subn(r"(server server-\d:8815;\s*)+", addresses, text)
    assert count == 1
    return "daemon off;\n" + text


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[Proxy]:
    certificate = Certificate.make()
    (tmp_path / "tls.crt").write_bytes(certificate.certificate)
    (tmp_path / "tls.key").write_bytes(certificate.key)
    accounts = tmp_path / "accounts.toml"
    accounts.write_text(f'[[account]]\nsubject = "ana"\ntokens = ["{hash_token(TOKEN)}"]\n')
    lance_core.write_dataset(ROWS, tmp_path / "served" / "rows.lance")
    with ExitStack() as stack:
        port = stack.enter_context(reserved_port())
        options = ("--accounts-file", str(accounts), "--advertise", f"grpc+tls://127.0.0.1:{port}")
        logs = (tmp_path / "server-1.log", tmp_path / "server-2.log")
        servers = [start_server(tmp_path / "served", log, *options) for log in logs]
        for server in servers:
            stack.callback(server.kill)
        (tmp_path / "nginx.conf").write_text(_configuration(tmp_path, port, servers))
        command = ["nginx", "-c", tmp_path / "nginx.conf", "-p", tmp_path, "-e", "stderr"]
        with (tmp_path / "nginx.log").open("wb") as log:
            process = subprocess.Popen(command, stderr=log)
        try:
            _wait_until_it_listens(port)
            yield Proxy(port, servers, certificate.certificate, process)
            assert process.poll() is None, (tmp_path / "nginx.log").read_text()
        finally:
            process.terminate()
            process.wait()


def test_clients_read_and_write_through_the_proxy(proxy: Proxy) -> None:
    """Streams are not bounded: an upload of 8 MB arrives, and so does a whole table."""
    with proxy.client() as client:
        assert client.dataset("rows").to_table().num_rows == len(ROWS)
        client.write("rows", ROWS, mode="append")
        assert client.dataset("rows").count_rows() == 2 * len(ROWS)
    used = [server for server in proxy.servers if "rows" in server.log]
    assert used, "the calls went through no server"


def test_a_wrong_token_is_the_servers_to_refuse(proxy: Proxy) -> None:
    with proxy.client("another token, which no account has") as client:
        with pytest.raises(flight_client.NotAuthenticatedError):
            client.datasets()
        with pytest.raises(flight_client.NotAuthenticatedError):
            client.write("rows", ROWS, mode="append")


def test_huge_requests_without_a_token_stop_at_the_proxy(proxy: Proxy) -> None:
    """T5: 64 MiB without a token are refused after 2 MiB; the servers do not see the rest."""
    with proxy.client() as client:
        assert client.dataset("rows").count_rows() == len(ROWS)
    before = [server.anonymous_bytes() for server in proxy.servers]
    huge = command_descriptor(b"x" * (64 << 20))
    with proxy.channel() as channel:
        for method in ("GetFlightInfo", "GetSchema", "DoGet", "DoAction", "ListFlights"):
            ended = call_on(channel, method, huge, timeout=120)
            assert ended.code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE), ended
    grown = [server.anonymous_bytes() - size for server, size in zip(proxy.servers, before, strict=True)]
    assert max(grown) < 16 << 20
    with proxy.client() as client:
        assert client.dataset("rows").count_rows() == len(ROWS)


def test_a_command_of_a_mebibyte_passes(proxy: Proxy) -> None:
    """The largest commands that a server takes are not refused by the proxy."""
    padded = b'{"scan": {"dataset": "rows"}}'.ljust((1 << 20) - 16)
    with proxy.channel() as channel:
        headers = [("authorization", f"Bearer {TOKEN}")]
        ended = call_on(channel, "GetFlightInfo", command_descriptor(padded), headers=headers)
    assert ended.code is grpc.StatusCode.OK, ended


def test_a_lost_server_is_left_out(proxy: Proxy) -> None:
    """With one server the proxy goes on; with none, clients learn that they should come back."""
    with proxy.client() as client:
        proxy.servers[0].process.kill()
        for _ in range(8):
            assert client.dataset("rows").count_rows() == len(ROWS)
    proxy.servers[1].process.kill()
    with proxy.channel() as channel:
        ended = call_on(channel, "GetFlightInfo", command_descriptor(b'{"scan": {"dataset": "rows"}}'))
    assert ended.code is grpc.StatusCode.UNAVAILABLE
    assert ended.details == "no server is ready"
