"""Writers that begin at once, each in a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from multiprocessing.connection import Connection
from typing import Any

from support.processes.forked import forking_context

READY = "ready"

Writer = Callable[..., Iterator[str]]
"""Yields `READY` when it has imported its library, and then the answer to each change that it makes."""


def race(writer: Writer, arguments: Sequence[Sequence[Any]]) -> list[list[str]]:
    """Run the writer with each of the arguments at once; return the answers that each got.

    The processes are forked from one that has imported our modules, so that none waits long for the others.
    """
    context = forking_context()
    with ExitStack() as stack:
        ends = []
        for each in arguments:
            here, there = context.Pipe()
            ends.append(stack.enter_context(here))
            process = context.Process(target=_write, args=(writer, each, there))
            process.start()
            stack.callback(process.join)
            stack.callback(process.kill)  # where another one fails, it would wait for its turn
            there.close()
        for end in ends:
            assert end.recv() == READY
        for end in ends:
            end.send("go")
        return [end.recv() for end in ends]


def _write(writer: Writer, arguments: Sequence[Any], end: Connection) -> None:
    answers = writer(*arguments)
    end.send(next(answers))
    end.recv()
    end.send(list(answers))
