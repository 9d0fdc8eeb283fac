"""Decompressed bytes are shared by those who use them at the same time, and by nobody else."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from lance_core.encodings.v2_0.decompressed_buffer import Inflated


def test_bytes_live_as_long_as_an_array_in_them() -> None:
    """T24: nothing is kept when nobody uses it."""
    inflated, made = Inflated(), []

    def inflate() -> pa.Buffer:
        made.append(1)
        return pa.py_buffer(b"abcdef")

    part = pa.py_buffer(inflated.make(inflate)).slice(2, 2)
    gc.collect()
    assert inflated.get() is not None
    again = pa.py_buffer(inflated.make(inflate))
    assert (made, again.address + 2) == ([1], part.address)
    del again, part
    gc.collect()
    assert inflated.get() is None
    assert bytes(inflated.make(inflate)) == b"abcdef"
    assert made == [1, 1]


def test_two_who_come_at_once_share() -> None:
    inflated, made = Inflated(), []

    def inflate() -> pa.Buffer:
        made.append(1)
        return pa.py_buffer(b"x")

    with ThreadPoolExecutor(4) as pool:
        results = [job.result() for job in [pool.submit(inflated.make, inflate) for _ in range(8)]]
    assert all(result is results[0] for result in results)
    assert made == [1]


def test_no_bytes() -> None:
    assert pa.py_buffer(Inflated().make(lambda: pa.py_buffer(b""))).size == 0
