"""Turns of streams: which of them send when there are more than the processors can serve.

Sending takes more processor time than decoding. Without turns, all streams send at once: each of them waits
for a processor and for the interpreter's lock, and so does every short call. With turns, as many streams send
as keep the processors busy. While short calls come in, fewer send, and none begins for a while after a turn
has ended. The next turn is for the stream that has sent the least. The first bytes of a stream need
no turn, so that a lookup never waits for one.
"""

import heapq
import threading
import time

from flight_server.limits.processors import Processors

_FREE_BYTES = 4 << 20
"""Bytes that each stream sends before it needs turns. A stream that ends with fewer is a short call."""
_STREAMS_PER_PROCESSOR = 2
"""Streams that send at once for each processor. They often wait: for rows, for memory, for their clients."""
# A client that takes a window more slowly than this is slow.
_SLOW_SECONDS = 0.02
_SLOW_BYTES_PER_SECOND = 64 << 20
# While short calls come in, there is a pause after each turn: this many times as long as the turn took.
_REST_SHARE = 2
_LONGEST_REST_SECONDS = 0.04
_MOST_BEHIND_BYTES = 64 << 20
"""Bytes by which a stream may be behind the others and still catch up."""


class Turns:
    """Turns of the streams of one process. Thread-safe."""

    def __init__(self, processors: Processors) -> None:
        self._processors = processors
        self._changed = threading.Condition()
        self._waiting: list[tuple[int, int, StreamTurns]] = []
        self._sending: dict[StreamTurns, float] = {}
        """Streams that have a turn, and the time at which each counts as slow."""
        self._rest_until = 0.0
        """Time before which no turn begins, so that short calls find a processor."""
        self._least_sent = 0
        """Bytes that the stream had sent which got the latest turn."""
        self._number = 0

    @property
    def waiting(self) -> int:
        """Number of streams that wait for a turn."""
        return len(self._waiting)

    def most_beside(self, stream: "StreamTurns") -> int:
        """Return how many streams may send just now, if `stream` is the next of them."""
        share = self._processors.share
        if self._processors.have_calls_since(stream.opened):
            return max(1, share // 2)
        return _STREAMS_PER_PROCESSOR * share

    def stream(self) -> "StreamTurns":
        """Return the turns of one more stream."""
        return StreamTurns(self)

    def _wait(self, stream: "StreamTurns", num_bytes: int) -> None:
        """Wait for a turn to send `num_bytes`. The caller gives it back with `_end`."""
        with self._changed:
            # A new stream begins where the others are. A stream that did not send for long, since its client
            # was slow, catches up a little, and the others need not wait for all that it missed.
            behind = 0 if stream.sent is None else _MOST_BEHIND_BYTES
            stream.sent = max(stream.sent or 0, self._least_sent - behind)
            self._number += 1
            entry = (stream.sent, self._number, stream)
            heapq.heappush(self._waiting, entry)
            try:
                while (
                    self._waiting[0] is not entry
                    or len(self._sending) >= self.most_beside(stream)
                    or time.monotonic() < self._rest_until
                ):
                    self._changed.wait(self._seconds_to_next(entry))
                    self._take_from_slow()
            finally:
                self._waiting.remove(entry)
                heapq.heapify(self._waiting)
                self._changed.notify_all()
            self._least_sent = stream.sent
            stream.sent += num_bytes
            if not stream.is_slow:
                seconds = _SLOW_SECONDS + num_bytes / _SLOW_BYTES_PER_SECOND
                self._sending[stream] = time.monotonic() + seconds

    def _seconds_to_next(self, entry: "tuple[int, int, StreamTurns]") -> float | None:
        """Return when the rest ends, or a slow stream loses its turn. None: this stream is not the next."""
        if self._waiting[0] is not entry:
            return None
        now = time.monotonic()
        if len(self._sending) < self.most_beside(entry[2]):
            return max(0.0, self._rest_until - now)
        return max(0.0, min(self._sending.values()) - now)

    def _take_from_slow(self) -> None:
        """Take the turns from streams whose clients are slow. They go on to send without one."""
        now = time.monotonic()
        for stream in [stream for stream, end in self._sending.items() if end <= now]:
            del self._sending[stream]
            self._changed.notify_all()

    def _end(self, stream: "StreamTurns", seconds: float) -> None:
        with self._changed:
            if self._sending.pop(stream, None) is None:
                return
            if self._processors.have_calls_since(stream.opened):
                self._rest_until = time.monotonic() + min(_REST_SHARE * seconds, _LONGEST_REST_SECONDS)
            self._changed.notify_all()


class StreamTurns:
    """Turns of one stream. For one thread."""

    def __init__(self, turns: Turns) -> None:
        self.sent: int | None = None
        """Bytes sent in turns; for a stream that began later, with those that the others had sent by then."""
        self.is_slow = False
        """Whether the client took the latest window slowly. Then its stream sends without keeping a turn."""
        self.opened = time.monotonic()
        """Time after the call of the stream itself, which must not make it rest."""
        self._turns = turns
        self._num_bytes = 0
        self._latest_bytes = 0
        self._began: float | None = None

    def begin(self, num_bytes: int) -> None:
        """Wait until this stream may send `num_bytes`, and note that the client took the bytes before."""
        self.end()
        if self._num_bytes >= _FREE_BYTES:
            self._turns._wait(self, num_bytes)
        self._began = time.monotonic()
        self._num_bytes += num_bytes
        self._latest_bytes = num_bytes

    def end(self) -> None:
        """Note that the client took what was sent, and give the turn back."""
        if self._began is None:
            return
        seconds = time.monotonic() - self._began
        self.is_slow = seconds > _SLOW_SECONDS + self._latest_bytes / _SLOW_BYTES_PER_SECOND
        self._began = None
        self._turns._end(self, seconds)

    def close(self) -> None:
        """End the last turn. To be called once, when the stream ends."""
        self.end()
        if self._num_bytes < _FREE_BYTES:
            self._turns._processors.note_call()
