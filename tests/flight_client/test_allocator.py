"""What `connect` changes about memory."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# How many blocks of 8 MiB come from the system by themselves, before and after the first `connect`.
_MAPPED = """
import ctypes
library = ctypes.CDLL(None)
library.malloc.restype = ctypes.c_void_p
library.malloc.argtypes = [ctypes.c_size_t]

class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in
                "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

library.mallinfo2.restype = Mallinfo

def mapped():
    before = library.mallinfo2().hblks
    library.malloc(8 << 20)
    return library.mallinfo2().hblks - before

import flight_client
found = [mapped()]
flight_client.connect("grpc://127.0.0.1:1")
print(*found, mapped())
"""


@pytest.mark.parametrize(
    ("variables", "mapped"),
    [({}, "1 0"), ({"MALLOC_TRIM_THRESHOLD_": "1000000"}, "1 1"), ({"GLIBC_TUNABLES": ""}, "1 1")],
)
def test_received_memory_is_kept_unless_the_user_says_otherwise(
    variables: dict[str, str], mapped: str
) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", _MAPPED], env={**kept, **variables}, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == mapped
