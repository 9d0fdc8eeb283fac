"""Tests that every manifest store must pass."""

from __future__ import annotations

import threading

import pytest

from lance_core.errors import AlreadyExistsError, StorageError
from lance_core.table.manifest_store import ManifestRow, ManifestStore


class ManifestStoreCases:
    """Tests of a class that has a fixture `store`, empty for each test."""

    def test_one_row_per_version(self, store: ManifestStore) -> None:
        assert (store.latest("a"), store.get("a", 1)) == (None, None)
        for version in (1, 2, 10):
            store.insert("a", ManifestRow(version, f"a/{version}", version))
        store.insert("a/b", ManifestRow(11, "a/b/11", None))
        assert store.latest("a") == (10, "a/10", 10)
        assert store.latest("a/b") == (11, "a/b/11", None)
        with pytest.raises(AlreadyExistsError):
            store.insert("a", ManifestRow(2, "other", 5))
        assert store.get("a", 2) == (2, "a/2", 2)
        store.update("a", ManifestRow(2, "moved", 3))
        assert store.get("a", 2) == (2, "moved", 3)
        with pytest.raises(StorageError):
            store.update("a", ManifestRow(3, "a/3", 3))
        assert store.get("a", 3) is None
        store.forget("a")
        assert (store.latest("a"), store.latest("a/b")) == (None, (11, "a/b/11", None))

    def test_of_many_writers_one_inserts(self, store: ManifestStore) -> None:
        """T37"""
        won: list[int] = []

        def write(number: int) -> None:
            for version in range(1, 11):
                try:
                    store.insert("a", ManifestRow(version, f"{number}", None))
                    won.append(version)
                except AlreadyExistsError:
                    pass

        threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(won) == list(range(1, 11))
