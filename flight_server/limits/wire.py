"""Choice of the compression of one stream, by how fast its client takes what is sent.

A client that takes bytes more slowly than a compressor makes them gets its rows sooner with fewer bytes. The
choice compares how long a byte of rows takes with each codec: the time to compress it, and the time to send
what is left of it. The speed of the client is measured while the stream runs. The speed of the codecs is
measured on rows of the stream itself. If rows arrive no sooner after a change, the client was busy and not
the network: the stream goes back, and tries again much later.
"""

import time
from dataclasses import dataclass

import pyarrow as pa

NONE = "none"

# Time and bytes after which the speed of a client is looked at again. The first bytes of a stream only fill
# buffers on the way.
_PERIOD_SECONDS = 0.1
_PERIOD_BYTES = 4 << 20
_MOST_BYTES_PER_SECOND = 200e6
"""Clients that take bytes faster get them uncompressed. Networks of 1 Gbit/s are slower, this machine's own
clients are faster, even if it is busy."""
_GAIN = 1.25
"""Factor by which rows must arrive sooner for a change to be made, and kept."""
_SAMPLE_BYTES = 256 << 10
_SAMPLED_AGAIN_BYTES = 256 << 20
"""Bytes of rows after which codecs are measured again, and a change that did not help may be tried again."""
_CODECS = {"lz4": "lz4_frame", "zstd": "zstd"}


@dataclass(frozen=True)
class _Codec:
    """Price of compressing a byte of rows.

    Attributes:
        seconds: Processor time per byte.
        share: Bytes that are left of it.
    """

    seconds: float
    share: float


_PLAIN = _Codec(0.0, 1.0)


class WireChoice:
    """Compression of the next batches of one stream. For one thread.

    Attributes:
        compression: `none`, `lz4` or `zstd`.
        bytes_per_second: Latest speed at which the client took bytes; 0 before it is known.
    """

    def __init__(self) -> None:
        self.compression = NONE
        self.bytes_per_second = 0.0
        self._codecs: dict[str, _Codec] = {}
        self._num_bytes = 0
        self._sampled_at = 0
        self._tried_again_at = 0
        self._period_bytes = 0
        self._period_seconds = 0.0
        self._rate_before: float | None = None
        self._is_first_period = True

    def sent(self, rows: pa.RecordBatch, num_bytes: int, seconds: float) -> bool:
        """Count `num_bytes` of rows that were sent in `seconds`. Return whether the compression changes."""
        self._num_bytes += num_bytes
        self._period_bytes += num_bytes
        self._period_seconds += seconds
        if self._period_bytes < _PERIOD_BYTES or self._period_seconds < _PERIOD_SECONDS:
            return False
        rate = self._period_bytes / self._period_seconds
        self._period_bytes, self._period_seconds = 0, 0.0
        if self._is_first_period:  # some of its bytes are on the way
            self._is_first_period = False
            return False
        return self._look(rows, rate)

    def _look(self, rows: pa.RecordBatch, rate: float) -> bool:
        """Choose again, at a `rate` in bytes of rows per second."""
        if self._rate_before is not None:
            before, self._rate_before = self._rate_before, None
            if self.compression != NONE and rate < before * _GAIN:
                self._tried_again_at = self._num_bytes + _SAMPLED_AGAIN_BYTES
                return self._change(NONE)
        now = self._codecs.get(self.compression, _PLAIN)
        sending = max(1 / rate - now.seconds, 1e-12)
        self.bytes_per_second = now.share / sending
        if self.bytes_per_second > _MOST_BYTES_PER_SECOND:
            return self._change(NONE)
        if self._num_bytes < self._tried_again_at:
            return False
        if not self._codecs or self._num_bytes > self._sampled_at + _SAMPLED_AGAIN_BYTES:
            self._sample(rows)
            now = self._codecs.get(self.compression, _PLAIN)
        choices = {NONE: _PLAIN, **self._codecs}
        times = {name: each.seconds + each.share / self.bytes_per_second for name, each in choices.items()}
        best = min(times, key=lambda name: times[name])
        if times[best] * _GAIN > times[self.compression]:
            return False
        if self.compression == NONE:
            self._rate_before = rate
        return self._change(best)

    def _change(self, compression: str) -> bool:
        if compression == self.compression:
            return False
        self.compression = compression
        self._is_first_period = True
        return True

    def _sample(self, rows: pa.RecordBatch) -> None:
        """Measure the codecs on some rows."""
        num_rows = max(1, min(rows.num_rows, _SAMPLE_BYTES * rows.num_rows // max(rows.nbytes, 1)))
        sample = rows.slice(0, num_rows).serialize()
        for name, codec in _CODECS.items():
            began = time.thread_time()
            compressed = pa.compress(sample, codec=codec)
            spent = time.thread_time() - began
            self._codecs[name] = _Codec(spent / sample.size, compressed.size / sample.size)
        self._sampled_at = self._num_bytes
