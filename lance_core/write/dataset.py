"""Writing a dataset: batches are written one by one, then committed as the next version."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Literal, Self

import pyarrow as pa

from lance_core.commit.commit import commit
from lance_core.commit.next_manifest import TableSettings
from lance_core.commit.transaction_lookup import find_committed
from lance_core.errors import (
    CommitConflictError,
    CommitUnknownError,
    DatasetExistsError,
    DatasetNotFoundError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
)
from lance_core.file.footer import FileVersion
from lance_core.file.v0_1.dictionaries import Dictionaries
from lance_core.file.writer_options import WriteOptions
from lance_core.pool import run_all
from lance_core.proto import transaction_pb2
from lance_core.schema import Schema, schema_from_arrow
from lance_core.schema.from_arrow import with_blobs_v2
from lance_core.storage import Storage
from lance_core.table import feature_flags
from lance_core.table.bases import BaseOpener, DatasetBasePath, numbered, open_base
from lance_core.table.manifest import Manifest
from lance_core.table.manifest_dictionaries import dictionaries_of
from lance_core.table.snapshot import Snapshot, open_snapshot
from lance_core.table.transaction import append, new_transaction, overwrite
from lance_core.write.batch_sources import batches_of
from lance_core.write.dataset_options import STABLE, DatasetWriteOptions
from lance_core.write.fragments import FragmentWriter
from lance_core.write.schema_conformer import Conformer

Mode = Literal["create", "append", "overwrite"]


class DatasetWriter:
    """Writer of one version of a dataset, for one thread: call `write` for each batch, then `commit`.

    Nothing is visible before the commit. `abort`, or leaving the `with` block without a commit, removes the
    written files.
    """

    def __init__(
        self,
        storage: Storage,
        schema: pa.Schema,
        mode: Mode = "create",
        options: DatasetWriteOptions | None = None,
        *,
        base: Snapshot | None = None,
        open_base: BaseOpener = open_base,
    ) -> None:
        """Compare the schema with that of the dataset and prepare to write.

        Args:
            storage: storage of the dataset, or of the new dataset.
            schema: schema of the batches.
            mode: `create`, `append`, or `overwrite`, which replaces rows and schema. If there is no dataset,
                append and overwrite create it.
            options: options; None means the defaults.
            base: version on which the new version is based; None means the latest.
            open_base: opens base paths, if `base` is not given.

        Raises:
            InvalidInputError: the mode or an option is invalid, or the schema does not match the dataset.
            DatasetExistsError: the mode is `create`, and the dataset exists.
            UnsupportedFeatureError: a type or file version cannot be written, or the dataset has an unknown
                feature.
        """
        if mode not in ("create", "append", "overwrite"):
            raise InvalidInputError("mode", expected="create, append or overwrite", found=repr(mode))
        self._storage = storage
        self._is_committing = False
        self._options = options or DatasetWriteOptions()
        self._mode = mode
        base = base or _latest(storage, open_base)
        if base is not None and mode == "create" and self._committed() is None:
            raise DatasetExistsError("dataset already exists")
        self._base = base.manifest if base else None
        self._open_base = base.open_base if base else open_base
        if base is not None and mode != "create" and self._options.initial_bases:
            raise InvalidInputError(
                f"Cannot register new bases in {mode.title()} mode: the dataset exists; use add_bases"
            )
        self._new_bases = numbered(self._options.initial_bases)
        bases = list(base.manifest.base_paths.values()) if base else self._new_bases
        self._syncs: list[Callable[[], None]] = []
        """Puts of files and syncs that have to end before a version names the files."""
        later = storage.putting_later(self._syncs)
        targets = self._options.targets.resolve(bases, later, self._open_base)
        self._session = base.session if base else None
        if self._base is not None:
            feature_flags.check_writable(
                self._base.reader_feature_flags, self._base.writer_feature_flags, self._base.name
            )
        version = table_file_version(self._options.file_version, self._base, mode)
        stable_row_ids = self._options.enable_stable_row_ids
        self.settings = TableSettings(version, stable_row_ids)
        """Settings of the new version."""
        self._schema = _table_schema(schema, self._base, mode, version)
        self._conformer = Conformer(self._schema, schema)
        if version == FileVersion.V0_1:
            _require_all_fields(self._schema, self._conformer.schema)
        keeps_values = self._base is not None and mode == "append"
        known = dictionaries_of(self._base) if self._base is not None and keeps_values else {}
        self._dictionaries = Dictionaries(known, grow=not keeps_values)
        self._fragments = FragmentWriter(
            later,
            self._conformer.schema,
            version,
            limits=self._options.limits,
            options=self._file_options(bases),
            progress=self._options.progress,
            sync=self._options.sync,
            dictionaries=self._dictionaries,
            targets=targets,
        )

    @property
    def num_rows(self) -> int:
        """Number of rows written so far."""
        return self._fragments.num_rows

    @property
    def num_bytes(self) -> int:
        """Estimated bytes of the data files so far."""
        return self._fragments.num_bytes

    def write(self, batch: pa.RecordBatch) -> None:
        """Append rows.

        Raises:
            InvalidInputError: the batch has another schema than announced, or a null in a required column.
            UnsupportedFeatureError: a value cannot be stored in files of this version.
            StorageError: the storage failed.
        """
        self._fragments.write(self._conformer.conform(batch))

    def transaction(self) -> transaction_pb2.Transaction:
        """Complete the files, and return the transaction that makes the version, to be committed elsewhere.

        Raises:
            LanceError: the files cannot be completed.
        """
        made = self._complete()
        run_all(self._syncs, is_remote=True)  # each waits for the disk or for the network
        return made

    def _complete(self) -> transaction_pb2.Transaction:
        """Return the transaction of `transaction`. `_syncs` are left to the caller."""
        fragments = self._fragments.finish()
        transaction = new_transaction(
            self._base.version if self._base else 0,
            uuid=self._options.transaction_id,
            message=self._options.commit_message,
            properties=self._options.transaction_properties,
        )
        if self._base is not None and self._mode == "append":
            return append(transaction, fragments)
        if self._base is not None:
            return overwrite(transaction, fragments, self._schema)
        new_bases = [base.to_message() for base in self._new_bases]
        return overwrite(transaction, fragments, self._schema, self._options.config, new_bases)

    def commit(self) -> Snapshot:
        """Complete the files and make the version.

        If the given transaction id was committed before, the version that it made is returned, and the files
        are removed.

        Raises:
            CommitConflictError: another version prevents this commit, see `lance_core.commit.commit`.
            CommitUnknownError: the storage did not answer, so the version may or may not exist; its files are
                kept.
            DatasetExistsError: another writer created the dataset meanwhile.
            LanceError: another error; nothing was committed, and all files are removed.
        """
        options = self._options
        with self._discarding():
            earlier = self._committed()
            if earlier is not None:
                self.abort()
                return self._opened(earlier)
            transaction = self._complete()
            self._is_committing = True
            try:
                manifest = commit(
                    self._storage,
                    transaction,
                    read=self._base,
                    settings=replace(self.settings, dictionaries=self._dictionaries.values),
                    writes=self._syncs,
                    inverted_names=options.enable_v2_manifest_paths,
                    sync=options.sync,
                )
            except CommitConflictError:
                if self._mode == "create":
                    raise DatasetExistsError("dataset was created by another writer meanwhile") from None
                raise
        return self._opened(manifest)

    def _file_options(self, bases: Sequence[DatasetBasePath]) -> WriteOptions:
        """Return the options of data files, with those of the table's base paths that may hold blobs."""
        files = self._options.files
        return replace(files, external_blobs=files.external_blobs.with_bases(bases))

    def _committed(self) -> Manifest | None:
        """Return the version that the given transaction id made before; None if there is none."""
        number = self._options.transaction_id
        if number is None:
            return None
        # The first append creates the table by an overwrite.
        operations = ("append", "overwrite") if self._mode == "append" else ("overwrite",)
        return find_committed(self._storage, number, operations)

    def _opened(self, manifest: Manifest) -> Snapshot:
        return Snapshot(self._storage, manifest, self._open_base, self._session).with_manifest(manifest)

    def abort(self) -> None:
        """Remove the written files."""
        self._fragments.abort()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._is_committing:
            self.abort()

    @contextmanager
    def _discarding(self) -> Iterator[None]:
        """Remove the files if it is certain that nothing was committed."""
        try:
            yield
        except CommitUnknownError:
            raise
        except LanceError:
            self.abort()
            raise


def write_data(
    storage: Storage,
    data: Any,
    schema: pa.Schema | None = None,
    mode: Mode = "create",
    options: DatasetWriteOptions | None = None,
    *,
    base: Snapshot | None = None,
    open_base: BaseOpener = open_base,
) -> Snapshot:
    """Write all rows of `data` as one version.

    Args:
        data, schema: see `lance_core.write.batch_sources.batches_of`.
        storage, mode, options, base, open_base: see `DatasetWriter`.

    Raises:
        LanceError: an error of `DatasetWriter` or `batches_of`.
    """
    given, batches = batches_of(data, schema)
    with DatasetWriter(storage, given, mode, options, base=base, open_base=open_base) as writer:
        for batch in batches:
            writer.write(batch)
        return writer.commit()


def _latest(storage: Storage, open_base: BaseOpener) -> Snapshot | None:
    try:
        return open_snapshot(storage, open_base=open_base)
    except DatasetNotFoundError:
        return None


def table_file_version(given: FileVersion | None, base: Manifest | None, mode: Mode) -> FileVersion:
    """Return the version of new data files: the caller's choice, else the table's version, else the default.

    Raises:
        InvalidInputError: the mode is `append`, and the caller's choice is not the table's version.
        UnsupportedFeatureError: the table has files of another version than it declares.
    """
    if base is None:
        return given or STABLE
    own = FileVersion.from_name(base.data_storage_version)
    if mode == "append" and given not in (None, own):
        raise InvalidInputError(
            "data_storage_version differs from that of the table", expected=own, found=given
        )
    if mode == "append" and own == FileVersion.V0_1:
        # Releases around 0.16 declared 0.1 and wrote 2.0 files. One table cannot have both.
        versions = {file.version for fragment in base.fragments for file in fragment.files}
        if versions - {own}:
            raise UnsupportedFeatureError(
                "appending to a table whose files have another version than it declares",
                expected=own,
                found=max(versions),
            )
    return given or own


def _table_schema(schema: pa.Schema, base: Manifest | None, mode: Mode, version: FileVersion) -> Schema:
    if base is not None and mode == "append":
        return base.schema
    return schema_from_arrow(with_blobs_v2(schema) if version >= FileVersion.V2_2 else schema)


def _require_all_fields(table: Schema, given: Schema) -> None:
    """Refuse missing columns of a 0.1 table, because the reference refuses fragments without all columns."""
    for field_id, field in table.field_by_id.items():
        if field_id not in given.field_by_id:
            raise InvalidInputError("column is missing, which a 0.1 table does not allow", column=field.name)
