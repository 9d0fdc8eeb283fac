"""Staged writes on storage: data files that belong to no version yet, and the receipts for them.

The data files are in the same directories as those of versions. For each staged write, the dataset also has

    _staging/<receipt>.staged      the record: the transaction that the write would make, and its files
    _staging/<receipt>.<n>.claim   the claim of one commit or one removal; put only if the file does not exist
    _staging/<receipt>.<n>.end     the end of that claim: shared or given back; put only if it does not exist

So receipts can be redeemed at any server of the root, and after a restart. A receipt is a random number: it
names nothing outside this folder and cannot be guessed. The receipt of a caller with a subject is not the
name of its files, which is a hash of the receipt and the subject: nobody else can redeem it.

A claim is durable before anything is done with a write, and is removed after its record. So at most one of
several commits and removals of a receipt continues (threat T13). The owner of a new claim looks for the
record again: another commit may have ended since the record was read, and removed both record and claim.

A repeated commit shares its claim, since the first one may still be running. A refused commit gives its claim
back, and the next claim has the next number. The writer that puts the end of the claim first decides between
the two: a shared claim is never given back, and the reverse. As long as the record exists, none of these
files is removed or changed. So the files that a killed process leaves cannot be misread.
"""

import hmac
import itertools
import json
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from flight_server.catalog.local import STAGING_DIRECTORY as DIRECTORY
from flight_server.requests.write_command import is_receipt
from lance_core.api.serving import StagedChange, Storage, map_ahead
from lance_core.errors import (
    AlreadyExistsError,
    CommitConflictError,
    CorruptFileError,
    FileMissingError,
    InvalidInputError,
    StorageError,
)

_RECORD = ".staged"
_CLAIM = ".{}.claim"
_END = ".{}.end"
_SHARED, _GIVEN_BACK = "shared", "given back"


@dataclass(frozen=True)
class StagedWrite:
    """Upload or task of a compaction that waits for its commit."""

    branch: str | None
    change: StagedChange
    staged_at: float
    """Seconds since the epoch."""


@dataclass(frozen=True)
class Claim:
    """Claim on a staged write."""

    transaction_id: str | None
    """Id of the transaction of the commit; None if the write is being removed."""
    read_version: int = 0
    """Version on which the commit is made; a repetition of the commit has the same."""


Held = Mapping[str, int]
"""Receipts, each with the number of the claim on it."""


class Staging:
    """The staged writes of one dataset, in the storage of its main branch. Thread-safe."""

    def __init__(self, storage: Storage, subject: str | None = None) -> None:
        """Use the receipts of a subject. None: receipts are the names of the files."""
        self._storage = storage
        self._subject = subject

    def keep(self, write: StagedWrite) -> str:
        """Make a durable record, and return its receipt."""
        receipt = secrets.token_hex(16)
        data = {**write.change.as_data(), "branch": write.branch, "staged_at": write.staged_at}
        self._storage.put_if_absent(self._path(receipt, _RECORD), json.dumps(data).encode())
        return receipt

    def read(self, receipts: Sequence[str]) -> list[StagedWrite]:
        """Return the staged writes, in the order of the receipts.

        Raises:
            InvalidInputError: a receipt that this dataset does not have: invented, of another dataset,
                committed, aborted or expired.
        """
        return list(map_ahead(self._read, receipts, self._storage.is_remote))

    def claim(self, receipts: Sequence[str], claim: Claim) -> Held:
        """Claim staged writes durably. A repetition of the same claim shares it.

        Raises:
            CommitConflictError: a write has another claim.
            InvalidInputError: a write is not there any more.
            LanceError: in every case, the new claims are given back.
        """
        held: dict[str, int] = {}

        def take(receipt: str) -> None:
            held[receipt] = self._take(receipt, claim)

        try:
            self._for_all(take, receipts)
            self._storage.sync_directory(DIRECTORY)
            self._for_all(self._check_record, receipts)
        except BaseException:
            self.give_back(held)
            raise
        return held

    def claim_of(self, receipt: str) -> Claim | None:
        """Return the claim that holds this receipt, or None.

        A claim file that a power failure left empty has no owner, but still blocks every other claim.
        """
        for number in itertools.count():
            claim = self._claim(receipt, number)
            if claim is None or self._end(receipt, number) != _GIVEN_BACK:
                return claim
        raise AssertionError  # never comes to an end

    def give_back(self, held: Held) -> None:
        """End claims that no other commit shares, so that others can claim the writes.

        A claim that cannot be ended stays.
        """

        def end(receipt: str) -> None:
            with suppress(StorageError):
                self._put_end(receipt, held[receipt], _GIVEN_BACK)

        self._for_all(end, list(held))

    def forget(self, receipts: Sequence[str]) -> None:
        """Remove records durably, and then their claims. A file that cannot be removed does no harm."""
        gone = []

        def delete(receipt: str) -> None:
            with suppress(StorageError):
                self._storage.delete_file(self._path(receipt, _RECORD))
                gone.append(receipt)

        self._for_all(delete, receipts)
        with suppress(StorageError):
            # A power failure must not bring a record back whose claims are gone.
            self._storage.sync_directory(DIRECTORY)
            self._for_all(self.sweep, gone)

    def sweep(self, receipt: str) -> None:
        """Remove the claims on a write whose record is gone, which mean nothing any more."""
        there = itertools.takewhile(lambda number: self._claim(receipt, number), itertools.count())
        with suppress(StorageError):
            for number in reversed(list(there)):
                self._storage.delete_file(self._path(receipt, _END, number))
                self._storage.delete_file(self._path(receipt, _CLAIM, number))

    def has_any(self) -> bool:
        """Return whether there are staged writes."""
        return any(file.path.endswith(_RECORD) for file in self._storage.list_files(DIRECTORY))

    def older_than(self, seconds: float) -> Iterator[tuple[str, float]]:
        """Yield the receipts of records of this age, or of claims without a record, with the age of the
        newest file.
        """
        now = time.time()
        ages: dict[str, dict[str, float]] = {}
        for file in self._storage.list_files(DIRECTORY):
            receipt, dot, kind = file.path.rpartition("/")[2].partition(".")
            if file.modified is not None and dot and is_receipt(receipt):
                ages.setdefault(receipt, {})[dot + kind] = now - file.modified
        for receipt, files in ages.items():
            youngest = min(files.values())
            if files.get(_RECORD, youngest) >= seconds:
                yield receipt, youngest

    def _for_all(self, do: Callable[[str], object], receipts: Sequence[str]) -> None:
        for _ in map_ahead(do, receipts, self._storage.is_remote):
            pass

    def _take(self, receipt: str, claim: Claim) -> int:
        """Put a claim, or share the same claim; return its number."""
        data = json.dumps({**vars(claim), "unique": secrets.token_hex(8)}).encode()
        for number in itertools.count():
            try:
                self._storage.put_if_absent(self._path(receipt, _CLAIM, number), data, sync=False)
                return number
            except AlreadyExistsError:
                pass
            is_same = self._claim(receipt, number) == claim
            if is_same:
                self._put_end(receipt, number, _SHARED)
            end = self._end(receipt, number)
            if is_same and end == _SHARED:
                return number
            if end != _GIVEN_BACK:
                raise CommitConflictError(
                    f"staged write {receipt} is taken by another commit or is being removed",
                    retryable=False,
                )
        raise AssertionError  # never comes to an end

    def _claim(self, receipt: str, number: int) -> Claim | None:
        values = self._note(self._path(receipt, _CLAIM, number))
        try:
            return None if values is None else Claim(values["transaction_id"], values["read_version"])
        except KeyError:
            return Claim("", -1)

    def _put_end(self, receipt: str, number: int, end: str) -> None:
        """Put the end of a claim, unless it has ended."""
        data = json.dumps({"end": end, "unique": secrets.token_hex(8)}).encode()
        with suppress(AlreadyExistsError):
            self._storage.put_if_absent(self._path(receipt, _END, number), data, sync=False)

    def _end(self, receipt: str, number: int) -> str | None:
        """Return the end of a claim: shared, given back, or None if it has not ended."""
        values = self._note(self._path(receipt, _END, number))
        return None if values is None else values.get("end", "")

    def _note(self, path: str) -> dict[str, Any] | None:
        """Return the content of the file of a claim or of its end; None if there is no file.

        It is empty after a power failure.
        """
        try:
            data = self._storage.read_file(path)
        except FileMissingError:
            return None
        try:
            values = json.loads(data)
        except ValueError:
            return {}
        return values if isinstance(values, dict) else {}

    def _check_record(self, receipt: str) -> None:
        try:
            self._storage.open_file(self._path(receipt, _RECORD)).close()
        except FileMissingError:
            raise _not_staged(receipt) from None

    def _read(self, receipt: str) -> StagedWrite:
        path = self._path(receipt, _RECORD)
        try:
            data = self._storage.read_file(path)
        except FileMissingError:
            raise _not_staged(receipt) from None
        try:
            values = json.loads(data)
            return StagedWrite(values["branch"], StagedChange.from_data(values), values["staged_at"])
        except (InvalidInputError, ValueError, KeyError, TypeError):
            raise CorruptFileError("the record of a staged write does not decode", file=path) from None

    def _path(self, receipt: str, kind: str, number: int = 0) -> str:
        name = receipt
        if self._subject is not None:
            name = hmac.digest(receipt.encode(), self._subject.encode(), "sha256").hex()[: len(receipt)]
        return f"{DIRECTORY}/{name}{kind.format(number)}"


def _not_staged(receipt: str) -> InvalidInputError:
    return InvalidInputError(
        f"nothing is staged in this dataset under the receipt {receipt}: the staged write was committed, "
        "aborted or has expired, or it never existed"
    )
