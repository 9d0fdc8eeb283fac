"""Transactions: what one version changed. Each is a file, and repeated in the manifest of its version.

Writers that started on an older version read the transactions of the versions since, to find out whether
their own still makes sense. Source: Lance table format, "Transactions"; docs/format.md.
"""

from collections.abc import Iterable, Mapping
from uuid import uuid4

from google.protobuf.message import DecodeError

from lance_core.errors import CommitConflictError, CorruptFileError, FileMissingError
from lance_core.proto import table_pb2, transaction_pb2
from lance_core.schema import Schema
from lance_core.storage import Storage
from lance_core.table.manifest import Manifest

DIRECTORY = "_transactions"

_MESSAGE_PROPERTY = "__lance_commit_message"


def new_transaction(
    read_version: int,
    *,
    uuid: str | None = None,
    message: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> transaction_pb2.Transaction:
    """A transaction that lacks its operation.

    Args:
        read_version: the version it was made on; 0 for a new table.
        uuid: its id, a new one if not given.
        message: what the author says about it; wins over a property of that name.
        properties: what else is noted on it.
    """
    noted = dict(properties or {})
    if message is not None:
        noted[_MESSAGE_PROPERTY] = message
    return transaction_pb2.Transaction(
        read_version=read_version, uuid=uuid or str(uuid4()), transaction_properties=noted
    )


def append(
    transaction: transaction_pb2.Transaction, fragments: Iterable[table_pb2.DataFragment]
) -> transaction_pb2.Transaction:
    """Let the transaction add fragments, which get their ids when it is committed."""
    transaction.append.SetInParent()
    transaction.append.fragments.extend(fragments)
    return transaction


def overwrite(
    transaction: transaction_pb2.Transaction,
    fragments: Iterable[table_pb2.DataFragment],
    schema: Schema,
    config: Mapping[str, str] | None = None,
) -> transaction_pb2.Transaction:
    """Let the transaction replace all fragments and the schema; also how tables begin.

    `config` is added to the settings of the table.
    """
    operation = transaction.overwrite
    operation.SetInParent()
    operation.fragments.extend(fragments)
    operation.schema.extend(schema.messages)
    for key, data in schema.raw_metadata.items():
        operation.schema_metadata[key] = data
    for key, text in (config or {}).items():
        operation.config_upsert_values[key] = text
    return transaction


def file_name(transaction: transaction_pb2.Transaction) -> str:
    """The name of its file in `_transactions/`."""
    return f"{transaction.read_version}-{transaction.uuid}.txn"


def read_transaction(storage: Storage, manifest: Manifest) -> transaction_pb2.Transaction:
    """The transaction that made a version: the one in the manifest if it is there, else its own file.

    Raises:
        CommitConflictError: the version was made without one, so that nobody knows what it changed.
        CorruptFileError: it does not decode.
        StorageError: the storage failed.
    """
    name, data = manifest.name, manifest.transaction_section
    if data is None:
        name = f"{DIRECTORY}/{manifest.message.transaction_file}"
        try:
            data = storage.read_file(name) if manifest.message.transaction_file else None
        except FileMissingError:
            data = None
    if data is None:
        raise CommitConflictError(f"version {manifest.version} has no transaction", retryable=False)
    try:
        return transaction_pb2.Transaction.FromString(data)
    except DecodeError:
        raise CorruptFileError("transaction does not decode", file=name) from None
