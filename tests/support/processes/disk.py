"""Processes that do not wait until the disk has what they write."""

from __future__ import annotations

import os
from typing import IO


def do_not_wait_for_the_disk() -> None:
    """Let `os.fsync` of this process return at once.

    A write syncs up to ten files and directories, and the disk takes milliseconds for each. A process that is
    killed loses nothing by this, and no test loses power: the tests of durability (T36) record the calls and
    build what a power cut may leave.
    """

    def check(file: int | IO[bytes]) -> None:
        os.fstat(file if isinstance(file, int) else file.fileno())

    os.fsync = check
