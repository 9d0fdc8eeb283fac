"""Staged writes on storage: data files that belong to no version yet, and the receipts for them.

The data files lie where those of versions do. Beside them a dataset has, for each staged write,

    _staging/<receipt>.staged    the record: the transaction that the write would make, and its files
    _staging/<receipt>.claim     who takes it: one commit, or whoever removes it; put only where none is

So receipts can be redeemed at any server of the root, and after a restart. A receipt is a random number: it
names nothing outside this folder, and nobody finds one by guessing. A claim is durable before anything is
done with a write, and goes after its record: of two commits of one receipt only one goes on, and a commit and
a removal exclude each other (threat T13). Whoever gets a claim looks for the record once more: it may have
been read before another commit ended, which leaves neither.
"""

import base64
import json
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from google.protobuf.message import DecodeError

from flight_server.names import shown
from lance_core.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
    StorageError,
)
from lance_core.file.footer import FileVersion
from lance_core.mutations.merge_plan import MergePlan
from lance_core.pool import map_ahead
from lance_core.proto import transaction_pb2
from lance_core.storage import Storage
from lance_core.table.next_manifest import TableSettings

DIRECTORY = "_staging"

_RECEIPT = re.compile(r"[0-9a-f]{32}")
_RECORD = ".staged"
_CLAIM = ".claim"


@dataclass(frozen=True)
class StagedWrite:
    """What one upload left to be committed."""

    operation: str
    """The operation of the commit that takes it."""
    branch: str | None
    transaction: transaction_pb2.Transaction
    """What it adds, and the version that it was made on. The rows of a merge are those of an overwrite."""
    settings: TableSettings
    files: tuple[tuple[str, int], ...]
    """Paths in the branch, with their sizes in bytes."""
    staged_at: float
    """Seconds since the epoch."""
    merge: MergePlan | None = None


@dataclass(frozen=True)
class Claim:
    """Who takes a staged write."""

    transaction_id: str | None
    """Of the commit; None: it is being removed."""
    read_version: int = 0
    """What the commit is made on; the same commit again has the same."""


class Staging:
    """The staged writes of one dataset, in the storage of its main branch. Thread-safe."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def keep(self, write: StagedWrite) -> str:
        """Make a durable record; returns the receipt."""
        receipt = secrets.token_hex(16)
        version = write.settings.file_version
        data = {
            "operation": write.operation,
            "branch": write.branch,
            "transaction": base64.b64encode(write.transaction.SerializeToString()).decode(),
            "file_version": version.name if version else None,
            "stable_row_ids": write.settings.stable_row_ids,
            "files": write.files,
            "staged_at": write.staged_at,
            "merge": None if write.merge is None else asdict(write.merge),
        }
        self._storage.put_if_absent(_path(receipt, _RECORD), json.dumps(data).encode())
        return receipt

    def read(self, receipts: Sequence[str]) -> list[StagedWrite]:
        """What was staged, in the order of the receipts.

        Raises:
            InvalidInputError: a receipt that this dataset does not have: made up, of another dataset,
                committed, aborted or expired.
        """
        return list(map_ahead(self._read, receipts, self._storage.is_remote))

    def claim(self, receipts: Sequence[str], claim: Claim) -> list[str]:
        """Claim staged writes durably; returns those that this claim had not before.

        Raises:
            CommitConflictError: a write has another claim.
            InvalidInputError: a write is not there any more.
            LanceError: whichever it is, nothing was claimed.
        """
        data = json.dumps({**vars(claim), "unique": secrets.token_hex(8)}).encode()
        claimed: list[str] = []

        def put(receipt: str) -> None:
            try:
                self._storage.put_if_absent(_path(receipt, _CLAIM), data, sync=False)
                claimed.append(receipt)
            except AlreadyExistsError:
                if self.claim_of(receipt) != claim:
                    raise CommitConflictError(
                        f"staged write {receipt} is taken by another commit or is being removed",
                        retryable=False,
                    ) from None

        try:
            for _ in map_ahead(put, receipts, self._storage.is_remote):
                pass
            self._storage.sync_directory(DIRECTORY)
            for _ in map_ahead(self._check_record, receipts, self._storage.is_remote):
                pass
        except BaseException:
            self.release(claimed)
            raise
        return claimed

    def claim_of(self, receipt: str) -> Claim | None:
        """Who takes it; one that a power failure left empty is nobody's, and excludes all others."""
        try:
            values = json.loads(self._storage.read_file(_path(receipt, _CLAIM)))
            return Claim(values["transaction_id"], values["read_version"])
        except FileMissingError:
            return None
        except (ValueError, KeyError, TypeError):
            return Claim("", -1)

    def release(self, receipts: Iterable[str]) -> None:
        """Remove claims; what cannot be removed keeps others out."""
        for receipt in receipts:
            with suppress(StorageError):
                self._storage.delete_file(_path(receipt, _CLAIM))

    def forget(self, receipts: Iterable[str]) -> None:
        """Remove records, and then their claims; what stays can do no harm."""
        for receipt in receipts:
            with suppress(StorageError):
                self._storage.delete_file(_path(receipt, _RECORD))
                self._storage.delete_file(_path(receipt, _CLAIM))

    def has_any(self) -> bool:
        """Whether something is staged."""
        return any(file.path.endswith(_RECORD) for file in self._storage.list_files(DIRECTORY))

    def older_than(self, seconds: float) -> Iterator[tuple[str, float, bool]]:
        """Receipts of this age, with their age, or that of the claim where there is one, and whether."""
        now = time.time()
        modified = {
            file.path.rpartition("/")[2]: file.modified
            for file in self._storage.list_files(DIRECTORY)
            if file.modified is not None
        }
        for name in modified:
            receipt, dot, _ = name.partition(".")
            claimed = receipt + _CLAIM in modified
            latest = modified[receipt + _CLAIM] if claimed else modified[name]
            is_first = name.endswith(_RECORD) or receipt + _RECORD not in modified
            if dot and _RECEIPT.fullmatch(receipt) and is_first and now - latest >= seconds:
                yield receipt, now - latest, claimed

    def _check_record(self, receipt: str) -> None:
        try:
            self._storage.open_file(_path(receipt, _RECORD)).close()
        except FileMissingError:
            raise _not_staged(receipt) from None

    def _read(self, receipt: str) -> StagedWrite:
        path = _path(receipt, _RECORD)
        try:
            data = self._storage.read_file(path)
        except FileMissingError:
            raise _not_staged(receipt) from None
        try:
            return _parsed(json.loads(data))
        except (ValueError, KeyError, TypeError, DecodeError):
            raise CorruptFileError("the record of a staged write does not decode", file=path) from None


def check_receipt(field: str, value: Any) -> str:
    """A receipt as `keep` makes them; InvalidInputError for anything else."""
    if not isinstance(value, str) or not _RECEIPT.fullmatch(value):
        raise InvalidInputError(f"{field}: not a receipt of a staged write", found=shown(str(value)))
    return value


def _not_staged(receipt: str) -> InvalidInputError:
    return InvalidInputError(
        f"nothing is staged in this dataset under {receipt}: it was committed, aborted or has expired, or "
        "was never there"
    )


def _path(receipt: str, suffix: str) -> str:
    return f"{DIRECTORY}/{receipt}{suffix}"


def _parsed(values: dict[str, Any]) -> StagedWrite:
    return StagedWrite(
        operation=values["operation"],
        branch=values["branch"],
        transaction=transaction_pb2.Transaction.FromString(base64.b64decode(values["transaction"])),
        settings=TableSettings(
            FileVersion.from_name(values["file_version"]) if values["file_version"] else None,
            values["stable_row_ids"],
        ),
        files=tuple((path, size) for path, size in values["files"]),
        staged_at=values["staged_at"],
        merge=MergePlan(**{**values["merge"], "on": tuple(values["merge"]["on"])})
        if values["merge"]
        else None,
    )
