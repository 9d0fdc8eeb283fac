"""Makes a change over and over, each time in a process that is killed at another call to the storage.

`FOLDER/before`, if there is one, is copied to `FOLDER/0`, `FOLDER/1`, ... and the function `make_change` of
the module makes the change there, killed before or after call 0, 1, ... of those that change something in the
storage, until one change comes to its end.
"""

from __future__ import annotations

import os
import shutil
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from support.faults.failing_storage import FaultStorage, kills, kills_after
from support.processes.disk import do_not_wait_for_the_disk
from support.processes.forked import forking_context


def kill_at_every_call(folder: Path, module: str, change: str, when: str) -> int:
    """Kill the change BEFORE or AFTER every call; return the number of copies: the last has all of it.

    The processes are forked from one that has no threads, as this one has.
    """
    context = forking_context()
    read, written = context.Pipe(duplex=False)
    with read, written:
        process = context.Process(target=_run, args=(folder, module, change, when, written))
        process.start()
        written.close()
        try:
            outcome = read.recv()
        except EOFError:
            outcome = "no answer"
        process.join()
    assert isinstance(outcome, int), outcome
    return outcome


def _run(folder: Path, module: str, change: str, when: str, outcome: Connection) -> None:
    do_not_wait_for_the_disk()
    try:
        outcome.send(_kill(folder, import_module(module).make_change, change, when))
    except BaseException:
        outcome.send(traceback.format_exc())


def _kill(folder: Path, make_change: Callable[[FaultStorage, str], object], change: str, when: str) -> int:
    _import_what_is_deferred(folder, make_change, change)
    fault = kills_after if when == "AFTER" else kills
    for number in range(1000):
        target = folder / str(number)
        _copy(folder, target)
        child = os.fork()
        if child == 0:
            try:
                make_change(FaultStorage(target, number, fault), change)
            except BaseException as error:
                print(repr(error), file=sys.stderr)
                os._exit(1)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status == 0:
            return number + 1
        assert not os.WIFEXITED(status), f"change {number} failed instead of being killed"
    raise AssertionError("the change has no end")


def _copy(folder: Path, target: Path) -> None:
    if (folder / "before").exists():
        shutil.copytree(folder / "before", target, copy_function=os.link)


def _import_what_is_deferred(
    folder: Path, make_change: Callable[[FaultStorage, str], object], change: str
) -> None:
    """Import the modules that the first change of a process imports, half a second of a processor for each.

    Another process makes the change and names them: this one has no threads, and must not have any to fork.
    """
    read, written = os.pipe()
    child = os.fork()
    if child == 0:
        target = folder / "whole"
        _copy(folder, target)
        make_change(FaultStorage(target), change)
        shutil.rmtree(target)
        with os.fdopen(written, "w") as modules:
            modules.writelines(f"{name}\n" for name in sys.modules)
        os._exit(0)
    os.close(written)
    with os.fdopen(read) as modules:
        names = modules.read().splitlines()
    assert os.waitpid(child, 0)[1] == 0
    for name in names:
        import_module(name)
