"""Delay line before a server: every byte arrives as late as over a long way, and nothing is slower.

    python -m benchmarks.delay_line PORT SECONDS

Prints the port on which it listens. A request and its answer take SECONDS together. Each line that it reads
is answered with the number of HTTP requests since the line before.
"""

from __future__ import annotations

import asyncio
import sys
import time

_CHUNK_BYTES = 256 << 10
_METHODS = (b"GET ", b"HEAD ", b"PUT ", b"POST ", b"DELETE ")


class DelayLine:
    """Connections to a local server, and the number of requests that came through them."""

    def __init__(self, port: int, seconds: float) -> None:
        self.num_requests = 0
        self._port = port
        self._seconds = seconds

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on what a client and the server send to each other until one of them ends."""
        from_server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        await asyncio.gather(
            self._pass_on(reader, to_server, are_requests=True),
            self._pass_on(from_server, writer, are_requests=False),
        )

    async def _pass_on(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, are_requests: bool
    ) -> None:
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        arriving = asyncio.create_task(_arrive(under_way, writer))
        data = b"."
        while data:
            try:
                data = await reader.read(_CHUNK_BYTES)
            except ConnectionError:
                data = b""
            self.num_requests += are_requests and data.startswith(_METHODS)
            under_way.put_nowait((time.monotonic() + self._seconds / 2, data))
        await arriving


async def _arrive(under_way: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter) -> None:
    while True:
        due, data = await under_way.get()
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        if not data:
            writer.close()
            return
        writer.write(data)


async def _main(port: int, seconds: float) -> None:
    line = DelayLine(port, seconds)
    server = await asyncio.start_server(line.serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    questions = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(questions), sys.stdin)
    while await questions.readline():
        print(line.num_requests, flush=True)
        line.num_requests = 0


if __name__ == "__main__":
    asyncio.run(_main(int(sys.argv[1]), float(sys.argv[2])))
