"""Changes of the allocator's settings by `connect`."""

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


# How many heaps there are more after eight threads have allocated at once.
_HEAPS = """
import ctypes, sys, tempfile, threading
from flight_client.network.received_memory import share_received_memory
library = ctypes.CDLL(None)
library.malloc.restype = library.fopen.restype = ctypes.c_void_p

def heaps():
    with tempfile.NamedTemporaryFile() as file:
        stream = ctypes.c_void_p(library.fopen(file.name.encode(), b"w"))
        library.malloc_info(0, stream)
        library.fclose(stream)
        return file.read().count(b"<heap nr=")

def allocate():
    library.malloc(5000)
    together.wait()

if sys.argv[1] == "share":
    share_received_memory()
together = threading.Barrier(8)
threads = [threading.Thread(target=allocate) for _ in range(8)]
before = heaps()
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(heaps() - before)
"""


@pytest.mark.parametrize(
    ("variables", "act", "is_shared"),
    [({}, "share", True), ({}, "leave", False), ({"MALLOC_ARENA_MAX": "6"}, "share", False)],
)
def test_threads_share_one_heap_where_asked_for(variables: dict[str, str], act: str, is_shared: bool) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", _HEAPS, act],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (int(done.stdout) == 0) is is_shared
