"""Choice of a table's manifest store, by the options of its storage."""

from functools import lru_cache

from lance_core.errors import InvalidInputError
from lance_core.storage import Storage
from lance_core.table.manifest_store.store import ManifestStore


def manifest_store_of(storage: Storage) -> ManifestStore | None:
    """Return the manifest store of the table in a storage; None if the storage needs none.

    The storage option `manifest_store` names the store: `ddb://TABLE` or `sqlite:///PATH`.

    Raises:
        InvalidInputError: the option has another form.
        UnsupportedFeatureError: a package is missing.
        StorageError: the store cannot be reached.
    """
    if storage.manifest_store is None:
        return None
    return _open(storage.manifest_store, tuple(sorted(storage.options.items())))


def forget_table(storage: Storage) -> None:
    """Remove the rows of the table in a storage from its manifest store, after the table was dropped."""
    store = manifest_store_of(storage)
    if store is not None:
        store.forget(store.place(storage))


@lru_cache(maxsize=64)
def _open(name: str, options: tuple[tuple[str, str], ...]) -> ManifestStore:
    # Imported late: most tables use neither store.
    kind, _, rest = name.partition("://")
    if kind == "ddb" and rest:
        from lance_core.table.manifest_store.dynamodb import DynamoDbManifestStore

        return DynamoDbManifestStore(rest, dict(options))
    if kind == "sqlite" and rest.startswith("/"):
        from lance_core.table.manifest_store.sqlite import SqliteManifestStore

        return SqliteManifestStore(rest)
    raise InvalidInputError(
        "storage option manifest_store", expected="sqlite:///absolute/path or ddb://table", found=repr(name)
    )
