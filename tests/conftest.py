"""Server processes on datasets that the reference wrote; `--long-share I/N`, a part of the long tests; and a
look at the end of the run for files outside its temporary folder.

The number of a test's part follows from its name: N runs with I from 0 to N - 1 have had every test once.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import zlib
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.processes.disk import do_not_wait_for_the_disk
from support.runs.draws import choose_profile
from support.runs.leftovers import Places, redirect_temporary_files
from support.servers.server import RunningServer, serving, start_server

if TYPE_CHECKING:
    from support.servers.served import Root, StartServer
    from support.stores.s3 import S3

_BEFORE = pytest.StashKey[Places]()
_LEFT = pytest.StashKey[list[str]]()

SPARK_IS_SHARED = False
"""Whether shares take long tests of Spark: true once it is known why its Java can end under load."""


def _share(text: str) -> tuple[int, int]:
    number, _, parts = text.partition("/")
    if not (number.isdecimal() and parts.isdecimal() and int(number) < int(parts)):
        raise argparse.ArgumentTypeError(f"expected I/N with I < N, found {text!r}")
    return int(number), int(parts)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long-share", type=_share, metavar="I/N", help="of the long tests only one part of N")


def pytest_configure(config: pytest.Config) -> None:
    choose_profile(whole_run=config.getoption("markexpr") != "not long")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    share = config.getoption("long_share")
    if share is not None:
        left_out = [item for item in items if not _has_its_turn(item, *share)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if _has_its_turn(item, *share)]
    result = yield
    # The first process begins with the first test, and the others take tests from the end of its list.
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)
    return result


def _has_its_turn(item: pytest.Item, number: int, parts: int) -> bool:
    """Not long, or one of the share; what is long for a reason of its own is in none."""
    long = item.get_closest_marker("long")
    if long is None:
        return True
    if long.args or (item.nodeid.startswith("tests/spark_pipeline/") and not SPARK_IS_SHARED):
        return False
    return zlib.crc32(item.nodeid.encode()) % parts == number


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector off the collected tests.

    The collected tests are millions of objects and live until the end of the run. Without this, the garbage
    collector takes half of the time of the collection, and later half a second for each full pass.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # Native modules report at the exit what is left. Earlier, the last passes of pytest take seconds.
        atexit.register(gc.unfreeze)


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):  # in the process that the others are started by
        session.config.stash[_BEFORE] = Places.look()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that left something behind, where nobody else writes meanwhile: `.ci/run` sets `CI`."""
    before = session.config.stash.get(_BEFORE, None)
    if before is None:
        return
    session.config.stash[_LEFT] = before.new()
    if session.config.stash[_LEFT] and "CI" in os.environ and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if left := config.stash.get(_LEFT, []):
        terminalreporter.section("new outside the temporary folder; tests use tmp_path", red=True)
        for path in left:
            terminalreporter.line(path)


@pytest.fixture(scope="session", autouse=True)
def _temporary_files(tmp_path_factory: pytest.TempPathFactory) -> None:
    redirect_temporary_files(tmp_path_factory.getbasetemp() / "tmp")


@pytest.fixture(scope="session", autouse=True)
def _no_wait_for_the_disk() -> Iterator[None]:
    """Sync no files in this process, nor in servers that are forked; new interpreters sync theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", os.fsync)  # which puts it back
        do_not_wait_for_the_disk()
        yield


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Root:
    """A folder of datasets, for tests that leave them as they are."""
    from support.servers.served import write_root  # which imports the reference

    return write_root(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="session")
def server(root: Root, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """One server on `root` for all tests that leave it as it is."""
    with serving(root.path, tmp_path_factory.mktemp("log") / "server.log") as server:
        yield server


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """An S3 server for all tests, each with buckets of its own: its start takes seconds of a processor."""
    from support.stores.s3 import s3_server  # which imports boto3

    with s3_server(tmp_path_factory.mktemp("s3") / "log") as server:
        yield server


@pytest.fixture
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StartServer]:
    """Start servers that end with the test: `serve(root, "--max-streams", "2")`."""
    started: list[RunningServer] = []

    def start(
        root: Path | str,
        *options: str,
        new_interpreter: bool = False,
        constants: Mapping[str, float] | None = None,
        **environment: str,
    ) -> RunningServer:
        log_file = tmp_path_factory.mktemp("log") / "server.log"
        started.append(
            start_server(
                root,
                log_file,
                *options,
                new_interpreter=new_interpreter,
                constants=constants,
                **environment,
            )
        )
        return started[-1]

    yield start
    for server in started:
        server.kill()
