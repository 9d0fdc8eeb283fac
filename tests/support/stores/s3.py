"""An S3 server as a process of its own, and a proxy before it that counts requests and breaks them."""

from __future__ import annotations

import itertools
import re
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import boto3

from support.processes.waiting import wait_until
from support.stores.store_process import store_process

KEY = "test-access-key"
SECRET = "test-secret-key"

_MEETING_SECONDS = 25.0
"""Time after which requests wait no longer for others. Clients give up after 30 seconds."""

_buckets = itertools.count()


@dataclass
class S3:
    """A running S3 server."""

    endpoint: str

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """`storage_options` for it, through another endpoint when one is given."""
        return {
            "aws_access_key_id": KEY,
            "aws_secret_access_key": SECRET,
            "aws_region": "us-east-1",
            "aws_endpoint": endpoint or self.endpoint,
            "allow_http": "true",
        }

    @property
    def client(self):
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def new_bucket(self) -> str:
        name = f"bucket-{next(_buckets)}"
        self.client.create_bucket(Bucket=name)
        return name

    def keys(self, bucket: str) -> list[str]:
        return [entry["Key"] for entry in self.client.list_objects_v2(Bucket=bucket).get("Contents", [])]

    def upload(self, directory: Path, bucket: str, prefix: str) -> None:
        """Copy a directory of local files."""
        client = self.client
        for path in sorted(directory.rglob("*")):
            if path.is_file():
                client.upload_file(str(path), bucket, f"{prefix}/{path.relative_to(directory)}")


SERVER = Path(__file__).with_name("moto_server.py")


@contextmanager
def s3_server(log: Path) -> Iterator[S3]:
    """Start a moto server on a free port and end it afterwards."""
    command = [sys.executable, "-P", str(SERVER), "-H", "127.0.0.1", "-p"]
    with store_process(lambda port: [*command, port], log) as port:
        yield S3(f"http://127.0.0.1:{port}")


@dataclass(frozen=True)
class Request:
    """One request that came through the proxy, and the bytes of the answer's body."""

    method: str
    target: str
    range: tuple[int, int] | None
    answered: int = 0


Fault = Callable[["Exchange"], None]


@dataclass
class Exchange:
    """One request on its way; a fault answers it, or changes the answer of the server."""

    request: Request
    message: bytes
    forward: Callable[[], tuple[bytes, bytes]]
    """Sends the request to the server; gives head and body of the answer.

    A server that ends first raises a ConnectionResetError, which ends the connection of the client as well.
    A test that is over may leave such a request: a read ahead that its client has given up.
    """
    send: Callable[[bytes], None]
    """Sends bytes to the client."""
    reset: Callable[[], None]
    """Ends the connection with a reset."""


class Meeting:
    """Requests that wait for each other, which requests that are sent one after the other never meet."""

    def __init__(self, count: int) -> None:
        self._barrier = threading.Barrier(count)
        self.is_over = False
        """Whether all requests have been there at the same time."""

    def wait(self) -> None:
        with suppress(threading.BrokenBarrierError):
            self._barrier.wait(_MEETING_SECONDS)
            self.is_over = True


@dataclass
class Proxy:
    """Passes requests on to the server of a store, and what is in `faults` may change that."""

    endpoint: str
    requests: list[Request] = field(default_factory=list)
    faults: list[tuple[Callable[[Request], bool], Fault]] = field(default_factory=list)
    """The first fault whose condition holds is used once and dropped; see `always` to keep it."""
    always: bool = False
    delay: float = 0.0
    """Seconds before each answer, as a store that is far away."""
    _meetings: list[tuple[Callable[[Request], bool], Meeting]] = field(default_factory=list)
    _uncounted: int = 0
    """Requests that have come and are not yet in `requests`."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def clear(self) -> None:
        """Forget all requests, those that a test before has left on their way among them."""
        wait_until(lambda: self._uncounted == 0, "every request has got its answer")
        with self._lock:
            self.requests.clear()
            self.faults.clear()
            self._meetings.clear()
            self.always = False

    def let_meet(
        self, count: int, *, after: int = 0, applies: Callable[[Request], bool] = lambda request: True
    ) -> Meeting:
        """Answer the next `count` requests only when all of them are there.

        Requests that come before `after` requests are answered do not count, nor those that do not apply.
        """
        meeting = Meeting(count)
        condition = lambda request: len(self.requests) >= after and applies(request)  # noqa: E731
        self._meetings += [(condition, meeting)] * count
        return meeting

    def meeting_for(self, request: Request) -> Meeting | None:
        with self._lock:
            for index, (applies, meeting) in enumerate(self._meetings):
                if applies(request):
                    del self._meetings[index]
                    return meeting
        return None

    @property
    def bytes_read(self) -> int:
        return sum(request.answered for request in self.requests if request.method == "GET")

    def count(self, request: Request, answered: int) -> None:
        """Called before the client has the answer, so that it sees its own requests counted."""
        with self._lock:
            self.requests.append(replace(request, answered=answered))
            self._uncounted -= 1

    def on(self, fault: Fault, *, method: str = "GET", part: str = "", times: int = 1) -> None:
        """Break the next `times` requests of a method whose target holds `part`."""
        for _ in range(times):
            self.faults.append((lambda request: request.method == method and part in request.target, fault))

    def fault_for(self, request: Request) -> Fault | None:
        with self._lock:
            for index, (applies, fault) in enumerate(self.faults):
                if applies(request):
                    if not self.always:
                        del self.faults[index]
                    return fault
        return None


@contextmanager
def s3_proxy(endpoint: str) -> Iterator[Proxy]:
    """A proxy before the server of a store, on a free port."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    proxy = Proxy(f"http://127.0.0.1:{listener.getsockname()[1]}")
    port = int(endpoint.rpartition(":")[2])

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_serve, args=(client, port, proxy), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield proxy
    finally:
        listener.close()


def _serve(client: socket.socket, port: int, proxy: Proxy) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        with client:
            stream = client.makefile("rb")
            while (message := _read_message(stream)) is not None:
                if not _answer(client, message, port, proxy):
                    return
    except OSError:
        pass


def _answer(client: socket.socket, message: tuple[bytes, bytes], port: int, proxy: Proxy) -> bool:
    head, body = message
    method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
    asked = re.search(rb"(?i)\r\nrange: bytes=(\d+)-(\d+)", head)
    request = Request(method, target, (int(asked[1]), int(asked[2]) + 1) if asked else None)
    with proxy._lock:
        proxy._uncounted += 1
    is_open, is_counted = True, False

    def forward() -> tuple[bytes, bytes]:
        with socket.create_connection(("127.0.0.1", port)) as server:
            server.sendall(re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", head) + b"\r\n\r\n" + body)
            answer = _read_message(server.makefile("rb"), has_body=method != "HEAD")
            if answer is None:
                raise ConnectionResetError("the server of the store ended without an answer")
            return answer

    def send(data: bytes) -> None:
        client.sendall(data)

    def reset() -> None:
        nonlocal is_open
        is_open = False
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()

    try:
        if proxy.delay:
            time.sleep(proxy.delay)
        if (meeting := proxy.meeting_for(request)) is not None:
            meeting.wait()
        fault = proxy.fault_for(request)
        if fault is not None:
            is_counted = True
            proxy.count(request, 0)
            fault(Exchange(request, head, forward, send, reset))
        else:
            answer_head, answer_body = forward()
            is_counted = True
            proxy.count(request, len(answer_body))
            send(re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", answer_head) + b"\r\n\r\n" + answer_body)
    finally:
        if not is_counted:
            with proxy._lock:
                proxy._uncounted -= 1
    return is_open and fault is None


def _read_message(stream, has_body: bool = True) -> tuple[bytes, bytes] | None:
    """Head without its end, and body."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = stream.readline()
        if not line:
            return None
        head += line
        if b"100-continue" in line.lower():
            raise AssertionError("not expected from this client")
    head = head[:-4]
    if not has_body:
        return head, b""
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    if length:
        body = stream.read(int(length[1]))
        if len(body) < int(length[1]):
            raise ConnectionResetError("the sender ended within a message")
        return head, body
    if re.search(rb"(?i)\r\ntransfer-encoding: chunked", head):
        body = b""
        while size := _chunk_size(stream):
            body += stream.read(size)
            stream.readline()
        stream.readline()
        head = re.sub(rb"(?i)\r\ntransfer-encoding: [^\r]*", b"", head)
        return head + b"\r\nContent-Length: %d" % len(body), body
    return head, b""


def _chunk_size(stream) -> int:
    line = stream.readline()
    if not line:
        raise ConnectionResetError("the server of the store ended within an answer")
    return int(line.split(b";")[0], 16)


# Faults.


def status(code: int, text: str = "Broken") -> Fault:
    """The server refuses the request without doing it."""

    def fault(exchange: Exchange) -> None:
        exchange.send(
            b"HTTP/1.1 %d %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n" % (code, text.encode())
        )

    return fault


def lost_answer(exchange: Exchange) -> None:
    """The server does what it was asked, and the connection breaks before the answer."""
    exchange.forward()
    exchange.reset()


def failed_after_landing(exchange: Exchange) -> None:
    """The server does what it was asked and says that it failed."""
    exchange.forward()
    status(500)(exchange)


def reset(exchange: Exchange) -> None:
    """The connection breaks before the request is done."""
    exchange.reset()


def truncated(exchange: Exchange) -> None:
    """The body of the answer ends early."""
    head, body = exchange.forward()
    exchange.send(head + b"\r\n\r\n" + body[: len(body) // 2])
    exchange.reset()


def short(exchange: Exchange) -> None:
    """The answer is a shorter body than was asked for, and says so nowhere but in its length."""
    head, body = exchange.forward()
    head = re.sub(rb"(?i)content-length: \d+", b"Content-Length: %d" % (len(body) // 2), head)
    exchange.send(head + b"\r\nConnection: close\r\n\r\n" + body[: len(body) // 2])


def other_range(exchange: Exchange) -> None:
    """The answer is another range of the same length."""
    head, body = exchange.forward()
    shifted = re.sub(
        rb"(?i)content-range: bytes (\d+)-(\d+)",
        lambda match: b"Content-Range: bytes %d-%d" % (int(match[1]) + 1, int(match[2]) + 1),
        head,
    )
    exchange.send(shifted + b"\r\nConnection: close\r\n\r\n" + body)


def other_tag(exchange: Exchange) -> None:
    """The answer comes from another object."""
    head, body = exchange.forward()
    head = re.sub(rb"(?i)\r\netag: [^\r]*", b'\r\nETag: "ffffffffffffffffffffffffffffffff"', head)
    exchange.send(head + b"\r\nConnection: close\r\n\r\n" + body)


def stall(seconds: float) -> Fault:
    """Nothing comes for some time."""

    def fault(exchange: Exchange) -> None:
        time.sleep(seconds)
        exchange.reset()

    return fault
