"""Python's thread state, kept while a stream lasts."""

from __future__ import annotations

from ctypes import pythonapi
from threading import get_ident


class ThreadState:
    """Reference to the thread state of the calling thread, which gRPC made and not Python.

    Arrow asks for each batch, and for each step of a middleware, by a call into Python of its own. Python
    makes a state for every such call, with a stack that is mapped, touched and unmapped again, while threads
    that decode wait for the address space. A further reference makes the first call's state serve all of
    them.
    """

    __slots__ = ("_state", "_thread")

    def __init__(self) -> None:
        self._thread = get_ident()
        self._state = pythonapi.PyGILState_Ensure()

    def release(self) -> None:
        """Give the reference back. To be called once."""
        # Arrow ends a call in the thread that began it; another's state could not be given back here.
        if get_ident() == self._thread:
            pythonapi.PyGILState_Release(self._state)

    def __enter__(self) -> None:
        """Keep the state, which this object has kept since it was made, until the end of a block."""

    def __exit__(self, *_: object) -> None:
        self.release()
