"""Storages of every kind, empty and of their own for each test."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from lance_core.storage import LocalStorage, Storage, storage_for
from lance_core.storage.object_options import Clients
from lance_core.storage.object_store import ObjectStorage
from support.stores.s3 import S3, Proxy, s3_proxy

_names = itertools.count()
REAL_FSYNC = os.fsync


@pytest.fixture(autouse=True)
def _wait_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the storages sync as they do outside tests, unlike the rest of the suite."""
    monkeypatch.setattr(os, "fsync", REAL_FSYNC)


@pytest.fixture(scope="session")
def bucket(s3: S3) -> str:
    return s3.new_bucket()


@pytest.fixture(scope="session")
def _proxy(s3: S3) -> Iterator[Proxy]:
    with s3_proxy(s3.endpoint) as proxy:
        yield proxy


@pytest.fixture
def proxy(_proxy: Proxy) -> Iterator[Proxy]:
    _proxy.clear()
    _proxy.delay = 0.0
    yield _proxy
    _proxy.clear()


@pytest.fixture(params=["local", "object memory", "s3", "fsspec memory"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    name = f"root-{next(_names)}"
    if request.param == "local":
        return LocalStorage(str(tmp_path / name))
    if request.param == "object memory":
        store = MemoryStore()
        return ObjectStorage.over(Clients(store, store, 0), name, "memory:/")
    if request.param == "s3":
        options = request.getfixturevalue("s3").options()
        return storage_for(f"s3://{request.getfixturevalue('bucket')}/{name}", options)
    return storage_for(f"memory://{name}")
