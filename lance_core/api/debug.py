"""Descriptions of metadata as text for people who look for a fault, with the names of `lance.debug`.

The text is that of the protobuf messages in the files. It may change without notice.
"""

from __future__ import annotations

from google.protobuf.message import Message
from google.protobuf.text_format import MessageToString

from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.api.fragment.metadata import FragmentMetadata
from lance_core.errors import CommitConflictError, InvalidInputError
from lance_core.table.snapshot import open_snapshot
from lance_core.table.transaction import read_transaction
from lance_core.table.versions import list_versions

__all__ = ["format_fragment", "format_manifest", "format_schema", "list_transactions"]


def format_manifest(dataset: OpenedDataset) -> str:
    """Return the manifest of the opened version."""
    return _text("Manifest", dataset.snapshot.manifest.message)


def format_schema(dataset: OpenedDataset) -> str:
    """Return the fields of the opened version, parents before their children, with their ids."""
    return "\n".join(_text("Field", field) for field in dataset.snapshot.manifest.message.fields)


def format_fragment(fragment: FragmentMetadata, dataset: OpenedDataset) -> str:
    """Return a fragment, and below it the fields of the dataset that its data files store."""
    stored = {number for file in fragment.files for number in file.fields}
    fields = [field for field in dataset.snapshot.manifest.message.fields if field.id in stored]
    return "\n".join([_text("Fragment", fragment.to_message()), *(_text("Field", field) for field in fields)])


def list_transactions(dataset: OpenedDataset, max_transactions: int = 10) -> list[str]:
    """Return the transactions of the opened branch, newest first. Versions without one are left out.

    Args:
        dataset: The dataset at any version.
        max_transactions: Largest number of transactions to return.

    Raises:
        InvalidInputError: `max_transactions` is negative.
    """
    if max_transactions < 0:
        raise InvalidInputError("max_transactions", expected="0 or more", found=max_transactions)
    storage = dataset.snapshot.storage
    texts: list[str] = []
    for version in reversed(list_versions(storage)):
        if len(texts) >= max_transactions:
            break
        manifest = open_snapshot(storage, version, dataset.snapshot.open_base).manifest
        try:
            texts.append(_text("Transaction", read_transaction(storage, manifest)))
        except CommitConflictError:  # an old library made the version
            continue
    return texts


def _text(name: str, message: Message) -> str:
    lines = MessageToString(message, as_utf8=True).splitlines()
    return "\n".join([f"{name} {{", *(f"  {line}" for line in lines), "}"])
