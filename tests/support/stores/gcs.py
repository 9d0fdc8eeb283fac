"""Google's own testbench for clients of its storage, as a process where it is installed, behind an adapter.

    pip install git+https://github.com/googleapis/storage-testbench

The command `storage-testbench` is found on `PATH`, or where the variable `LANCE_FLIGHT_GCS_TESTBENCH` says.
It decides about conditional puts (`x-goog-if-generation-match`). Of the XML interface, which obstore speaks,
it has puts and gets only, without ETag and Last-Modified: the adapter adds these, and lists and deletes by
the JSON interface.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, quote, unquote, urlsplit
from xml.sax.saxutils import escape

from support.stores.store_process import store_process

_buckets = itertools.count()


@dataclass(frozen=True)
class Gcs:
    """A running server."""

    endpoint: str
    testbench: int
    """Port of the server itself."""

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """`storage_options` for it, through another endpoint when one is given."""
        account = {"gcs_base_url": endpoint or self.endpoint, "disable_oauth": True}
        account |= dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        return {"google_service_account_key": json.dumps(account), "allow_http": "true"}

    def new_bucket(self) -> str:
        name = f"bucket-{next(_buckets)}"
        body = json.dumps({"name": name}).encode()
        status, _, _ = _ask(self.testbench, "POST", "/storage/v1/b?project=p", body)
        assert status == 200
        return name


def gcs_testbench() -> str | None:
    """Return the command, where it is installed."""
    return os.environ.get("LANCE_FLIGHT_GCS_TESTBENCH") or shutil.which("storage-testbench")


@contextmanager
def gcs_server(command: str, log: Path) -> Iterator[Gcs]:
    """Start the server and its adapter on free ports, and end them afterwards."""
    with store_process(lambda port: [command, "--port", port], log) as port:
        adapter = type("Adapter", (_Adapter,), {"testbench": port})
        with ThreadingHTTPServer(("127.0.0.1", 0), adapter) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            yield Gcs(f"http://127.0.0.1:{server.server_port}", port)
            server.shutdown()


def _ask(
    port: int, method: str, target: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, dict[str, str], bytes]:
    connection = HTTPConnection("127.0.0.1", port)
    try:
        connection.request(method, target, body, {"Content-Type": "application/json", **(headers or {})})
        answer = connection.getresponse()
        return answer.status, dict(answer.headers.items()), answer.read()
    finally:
        connection.close()


class _Adapter(BaseHTTPRequestHandler):
    """Adds the parts of the XML interface that the testbench lacks."""

    protocol_version = "HTTP/1.1"
    testbench: int

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        condition = self.headers.get("x-goog-if-generation-match")
        headers = {"Content-Type": "application/octet-stream"}
        if condition is not None:
            headers["x-goog-if-generation-match"] = condition
        status, _, answer = _ask(self.testbench, "PUT", self.path, body, headers)
        self._answer(status, answer, {"ETag": '"written"'})

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        bucket, _, key = parts.path.lstrip("/").partition("/")
        if not key:
            self._list(unquote(bucket), parse_qs(parts.query))
            return
        status, headers, body = _ask(self.testbench, "GET", self.path)
        asked = self.headers.get("Range")
        named = {"ETag": f'"{headers.get("x-goog-generation")}"', "Last-Modified": formatdate(usegmt=True)}
        if status == 200 and asked:
            first, _, last = asked.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(len(body) - int(last), 0)
            end = min(int(last) + 1, len(body)) if first and last else len(body)
            named["Content-Range"] = f"bytes {start}-{end - 1}/{len(body)}"
            status, body = 206, body[start:end]
        self._answer(status, body, named)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_DELETE(self) -> None:
        bucket, _, key = urlsplit(self.path).path.lstrip("/").partition("/")
        target = f"/storage/v1/b/{bucket}/o/{quote(unquote(key), safe='')}"
        status, _, _ = _ask(self.testbench, "DELETE", target)
        self._answer(204 if status == 200 else status, b"", {})

    def _list(self, bucket: str, query: dict[str, list[str]]) -> None:
        """All in one page, with the names behind `start-after` or a token."""
        asked = {name: query[name][0] for name in ("prefix", "delimiter") if name in query}
        text = "&".join(f"{name}={quote(value, safe='')}" for name, value in asked.items())
        _, _, body = _ask(self.testbench, "GET", f"/storage/v1/b/{bucket}/o?{text}")
        found = json.loads(body)
        after = query.get("start-after", [""])[0]
        contents = "".join(
            f"<Contents><Key>{escape(each['name'])}</Key><Size>{each['size']}</Size><ETag>x</ETag>"
            f"<LastModified>{each['updated']}</LastModified></Contents>"
            for each in found.get("items", [])
            if each["name"] > after
        )
        prefixes = "".join(
            f"<CommonPrefixes><Prefix>{escape(each)}</Prefix></CommonPrefixes>"
            for each in found.get("prefixes", [])
        )
        answer = f"<ListBucketResult>{contents}{prefixes}</ListBucketResult>"
        self._answer(200, answer.encode(), {"Content-Type": "application/xml"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass
