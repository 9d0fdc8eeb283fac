"""Makes a change over and over, each time in a process that is killed at another call to the storage.

    python -m support.killing FOLDER MODULE CHANGE BEFORE|AFTER

`FOLDER/before`, if there is one, is copied to `FOLDER/0`, `FOLDER/1`, ... and the function `make_change` of
the module makes the change there, killed before or after call 0, 1, ... of those that change something in the
storage, until one change comes to its end. Prints the number of copies.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from support.faults import FaultStorage, kills, kills_after


def kill_at_every_call(folder: Path, module: str, change: str, when: str) -> int:
    """Run this program; returns the number of copies, the last of which has the whole change."""
    run = subprocess.run(
        [sys.executable, "-m", "support.killing", str(folder), module, change, when],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return int(run.stdout)


def main(folder: Path, make_change: Callable[[FaultStorage, str], object], change: str, when: str) -> None:
    """Kill at every call."""
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
            print(number + 1)
            return
        if os.WIFEXITED(status):
            raise SystemExit(f"change {number} failed instead of being killed")


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


if __name__ == "__main__":
    main(Path(sys.argv[1]), import_module(sys.argv[2]).make_change, sys.argv[3], sys.argv[4])
