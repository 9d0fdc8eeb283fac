"""Python's thread state, kept while a stream lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import pythonapi
from threading import get_ident


@contextmanager
def kept_thread_state() -> Iterator[None]:
    """Keep the thread state of the calling thread, which gRPC made and not Python.

    Arrow asks for each batch by a call into Python of its own. Python makes a state for every such call, with
    a stack that is mapped, touched and unmapped again, while threads that decode wait for the address space.
    A further reference makes the first call's state serve all of them.
    """
    thread, state = get_ident(), pythonapi.PyGILState_Ensure()
    try:
        yield
    finally:
        # Arrow ends a stream in the thread that began it; another's state could not be given back here.
        if get_ident() == thread:
            pythonapi.PyGILState_Release(state)
