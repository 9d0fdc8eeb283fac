"""Commits to Azure and GCS, with the conditional puts of their emulators; skipped where there are none."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import lance
import pyarrow as pa
import pytest

import lance_core
from lance_core.errors import AlreadyExistsError, CommitConflictError, PutUnknownError
from lance_core.storage import Storage, storage_for
from support.changes.every_change import CHANGES, make_table
from support.stores import s3 as faults
from support.stores.azure import Azure, azure_server, azurite
from support.stores.gcs import Gcs, gcs_server, gcs_testbench
from support.stores.s3 import Proxy, s3_proxy

Store = Azure | Gcs

_names = itertools.count()
WRITERS = 4
ROUNDS = 10


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Azure]:
    command = azurite()
    if command is None:
        pytest.skip("no azurite-blob: `make emulators` installs it, see tests/support/stores/azure.py")
    with azure_server(command, tmp_path_factory.mktemp("azure") / "log") as server:
        yield server


@pytest.fixture(scope="module")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gcs]:
    command = gcs_testbench()
    if command is None:
        pytest.skip("no storage-testbench installed, see tests/support/stores/gcs.py")
    with gcs_server(command, tmp_path_factory.mktemp("gcs") / "log") as server:
        yield server


@pytest.fixture(scope="module", params=["az", "gs"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def store(scheme: str, request: pytest.FixtureRequest) -> Store:
    return request.getfixturevalue({"az": "azure", "gs": "gcs"}[scheme])  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def bucket(store: Store) -> str:
    return store.new_bucket()


@pytest.fixture
def uri(scheme: str, bucket: str) -> str:
    return f"{scheme}://{bucket}/t-{next(_names)}.lance"


@pytest.fixture(scope="module")
def _proxy(store: Store) -> Iterator[Proxy]:
    """One for all tests: clients keep connections, and would reach an older one by the same port."""
    with s3_proxy(store.endpoint) as proxy:
        yield proxy


@pytest.fixture
def proxy(_proxy: Proxy) -> Iterator[Proxy]:
    yield _proxy
    _proxy.clear()


def through(proxy: Proxy, store: Store, uri: str) -> Storage:
    """Return a storage whose requests can be broken; a failure is not hidden by repetitions of the client."""
    options = store.options(proxy.endpoint) | {"client_max_retries": "0", "timeout": "5s"}
    return storage_for(uri, options)


def read(store: Store, uri: str) -> pa.Table:
    """Return the table, after checking that both libraries read the same."""
    tables = [
        library.dataset(uri, storage_options=store.options()).to_table().sort_by("id").combine_chunks()
        for library in (lance_core, lance)
    ]
    assert tables[0].equals(tables[1])
    return tables[0]


def test_one_of_many_writers_of_a_name_wins(store: Store, uri: str) -> None:
    """T37: the conditional put decides; what is there is never replaced."""
    storages = [storage_for(uri, store.options()) for _ in range(WRITERS)]
    for number in range(ROUNDS):
        barrier = threading.Barrier(WRITERS)

        def put(writer: int, number: int = number, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait()
            try:
                storages[writer].put_if_absent(f"_versions/{number}", b"writer %d" % writer)
            except AlreadyExistsError:
                return False
            return True

        with ThreadPoolExecutor(WRITERS) as pool:
            won = list(pool.map(put, range(WRITERS)))
        assert won.count(True) == 1
        assert storages[0].read_file(f"_versions/{number}") == b"writer %d" % won.index(True)


def test_every_committer_gets_a_version_of_its_own(store: Store, uri: str) -> None:
    """T37: a writer that loses the race for a version makes the next version; no row is lost or doubled."""
    options = store.options()
    lance_core.write_dataset(pa.table({"id": [-1]}), uri, storage_options=options)

    def append(writer: int) -> None:
        library = (lance_core, lance)[writer % 2]
        for number in range(ROUNDS):
            rows = pa.table({"id": [writer * ROUNDS + number]})
            library.write_dataset(rows, uri, mode="append", storage_options=options)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(append, range(WRITERS)))
    assert read(store, uri)["id"].to_pylist() == list(range(-1, WRITERS * ROUNDS))
    ours, theirs = (library.dataset(uri, storage_options=options) for library in (lance_core, lance))
    versions = list(range(1, WRITERS * ROUNDS + 2))
    assert [each["version"] for each in ours.versions()] == versions
    assert [each["version"] for each in theirs.versions()] == versions


def test_a_stale_commit_is_refused(store: Store, uri: str) -> None:
    options = store.options()
    lance_core.write_dataset(pa.table({"id": [1, 2]}), uri, storage_options=options)
    stale = lance_core.LanceOperation.Overwrite(pa.schema([("id", pa.int64())]), [])
    lance.write_dataset(pa.table({"id": [3]}), uri, mode="overwrite", storage_options=options)
    with pytest.raises(CommitConflictError):
        lance_core.LanceDataset.commit(uri, stale, read_version=1, storage_options=options)
    assert read(store, uri)["id"].to_pylist() == [3]


@pytest.mark.parametrize("kind", ["append", "delete", "update", "merge_insert", "add_columns", "compact"])
def test_changes(kind: str, store: Store, uri: str, tmp_path: Path) -> None:
    """A dataset in the store changes like a dataset on a local disk, and a repeated id changes it once."""
    local = make_table(tmp_path / "t")
    lance.write_dataset(local.to_table(), uri, max_rows_per_file=10, enable_stable_row_ids=True,
                        storage_options=store.options())  # fmt: skip
    CHANGES[kind](local)
    for _ in range(2):
        CHANGES[kind](lance_core.dataset(uri, storage_options=store.options()))
    expected = lance_core.dataset(tmp_path / "t")
    assert read(store, uri).equals(expected.to_table().sort_by("id").combine_chunks())
    assert lance.dataset(uri, storage_options=store.options()).version == expected.version


@pytest.mark.parametrize("fault", [faults.lost_answer, faults.failed_after_landing])
def test_a_lost_answer_is_read_back(store: Store, uri: str, proxy: Proxy, fault: faults.Fault) -> None:
    """T38: a manifest that landed is recognised as ours; a manifest of another writer is not."""
    storage = through(proxy, store, uri)
    proxy.on(fault, method="PUT")
    storage.put_if_absent("_versions/1", b"ours")
    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("_versions/1", b"theirs")
    assert not proxy.faults
    assert storage.read_file("_versions/1") == b"ours"
    lance_core.write_dataset(pa.table({"id": [1]}), uri, storage_options=store.options())
    proxy.on(fault, method="PUT", part="versions")  # written as %5Fversions, too
    options = store.options(proxy.endpoint) | {"client_max_retries": "0"}
    lance_core.write_dataset(pa.table({"id": [2]}), uri, mode="append", storage_options=options)
    assert not proxy.faults
    assert read(store, uri)["id"].to_pylist() == [1, 2]


def test_a_put_that_nobody_answers_is_neither_success_nor_failure(
    store: Store, uri: str, proxy: Proxy
) -> None:
    """T38"""
    storage = through(proxy, store, uri)
    proxy.always = True
    proxy.on(faults.status(500), method="PUT")
    with pytest.raises(PutUnknownError):
        storage.put_if_absent("_versions/1", b"ours")
    proxy.clear()
    assert not storage.exists("_versions/1")
