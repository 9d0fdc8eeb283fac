"""Datasets that this process reads and changes itself: local ones, and those in object stores."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any

import pyarrow as pa

from flight_server.cli.datasets.target import Alterations, Facts, Rows, Selection, Target, null_blob
from flight_server.reading.index_facts import index_facts
from lance_core import ColumnOrdering, LanceDataset, dataset
from lance_core.api import serving  # whose names are imported when they are used
from lance_core.errors import UnsupportedFeatureError

_PART_BYTES = 1 << 20
"""Bytes of a blob that are read at a time."""
_MOST_NAMED_FILES = 10_000
"""Limit for the files that a dry run of a cleanup names, as on a server."""


class LocalTarget(Target):
    """A dataset that this process opens when it is first asked for."""

    def __init__(self, path: str, version: int | None) -> None:
        self._path = path
        self._version = version

    @cached_property
    def _dataset(self) -> LanceDataset:
        return dataset(self._path, version=self._version)

    def facts(self) -> Facts:
        return Facts(
            version=self._dataset.version,
            schema=self._dataset.schema,
            num_rows=self._dataset.count_rows(),
            num_fragments=len(self._dataset.get_fragments()),
            data_storage_version=self._dataset.data_storage_version,
        )

    @contextmanager
    def read(self, selection: Selection) -> Iterator[Rows]:
        scanner = self._dataset.scanner(**_arguments(selection))
        with scanner.to_reader() as reader:
            is_known = (selection.filter, selection.nearest, selection.full_text_query) == (None, None, None)
            num_rows = scanner.count_rows() if is_known else None
            yield Rows(num_rows, reader.schema, reader)

    def take(self, offsets: list[int], columns: list[str] | dict[str, str] | None) -> pa.Table:
        return self._dataset.take(offsets, columns)

    def blob(self, column: str, offset: int) -> Iterator[bytes]:
        (file,) = self._dataset.take_blobs(column, indices=[offset])
        if file is None:
            raise null_blob(column, offset)
        with file:
            yield from iter(lambda: file.read(_PART_BYTES), b"")

    def explain(self, selection: Selection, *, analyze: bool) -> dict[str, Any]:
        return self._dataset.scanner(**_arguments(selection)).explain(analyze=analyze).as_data()

    def aggregate(
        self, aggregates: Mapping[str, str], group_by: list[str] | dict[str, str] | None, filter: str | None
    ) -> pa.Table:
        return self._dataset.scanner(filter=filter).aggregate(aggregates, group_by)

    def delete(self, predicate: str) -> dict[str, Any]:
        rows = self._dataset.delete(predicate)["num_deleted_rows"]
        return {"version": self._dataset.version, "rows": rows}

    def update(self, updates: dict[str, str], where: str | None) -> dict[str, Any]:
        rows = self._dataset.update(updates, where)["num_rows_updated"]
        return {"version": self._dataset.version, "rows": rows}

    def compact(self, options: dict[str, Any]) -> dict[str, Any]:
        metrics = self._dataset.optimize.compact_files(**options)
        return {"version": self._dataset.version, **asdict(metrics)}

    def cleanup(self, options: dict[str, Any]) -> dict[str, Any]:
        given = dict(options)
        seconds, dry_run = given.pop("older_than_seconds", None), given.pop("dry_run", False)
        if seconds is not None:
            given["older_than"] = timedelta(seconds=seconds)
        if not dry_run:
            return asdict(self._dataset.cleanup_old_versions(**given))
        explained = self._dataset.explain_cleanup_old_versions(
            **given, include_files=True, max_files=_MOST_NAMED_FILES
        )
        return asdict(explained.stats) | {
            "files": [file.path for file in explained.candidate_files],
            "files_truncated": explained.candidate_files_truncated,
        }

    def versions(self) -> list[dict[str, Any]]:
        return [{**entry, "timestamp": _in_utc(entry["timestamp"])} for entry in self._dataset.versions()]

    def restore(self, version: int) -> dict[str, Any]:
        older = self._dataset.checkout_version(version)
        older.restore()
        return {"version": older.version}

    def drop(self) -> None:
        if os.path.islink(self._path.rstrip("/")):
            raise UnsupportedFeatureError(f"dropping {self._path}, which is a link")
        serving.drop_table(serving.storage_for(self._path))

    def damage(self) -> list[str]:
        try:
            return [str(error) for error in serving.find_damage(self._dataset.snapshot)]
        except serving.DAMAGE as error:  # of the manifest, without which nothing else can be looked at
            return [str(error)]

    def tags(self) -> dict[str, dict[str, Any]]:
        return {name: _jsonable(tag) for name, tag in self._dataset.tags.list().items()}

    def create_tag(self, name: str) -> int:
        self._dataset.tags.create(name)
        return self._dataset.version

    def update_tag(self, name: str) -> int:
        self._dataset.tags.update(name)
        return self._dataset.version

    def delete_tag(self, name: str) -> None:
        self._dataset.tags.delete(name)

    def branches(self) -> dict[str, dict[str, Any]]:
        return {name: _jsonable(branch) for name, branch in self._dataset.branches.list().items()}

    def create_branch(self, name: str) -> int:
        return self._dataset.create_branch(name).version

    def delete_branch(self, name: str) -> None:
        self._dataset.branches.delete(name)

    def add_columns(self, columns: dict[str, str]) -> int:
        self._dataset.add_columns(columns)
        return self._dataset.version

    def indices(self) -> list[dict[str, Any]]:
        fragment_ids = frozenset(fragment.fragment_id for fragment in self._dataset.get_fragments())
        return [index_facts(index, fragment_ids) for index in self._dataset.describe_indices()]

    def create_index(self, column: str, index_type: str, options: dict[str, Any]) -> int:
        given = {name: options[name] for name in options if name != "parameters"}
        self._dataset.create_scalar_index(column, index_type, **given, **options["parameters"])
        return self._dataset.version

    def optimize_indices(self, options: dict[str, Any]) -> int:
        self._dataset.optimize.optimize_indices(**options)
        return self._dataset.version

    def index_statistics(self, name: str) -> dict[str, Any]:
        return serving.index_statistics(self._dataset.snapshot, name)

    def prewarm_index(self, name: str) -> None:
        self._dataset.prewarm_index(name)

    def drop_index(self, name: str) -> int:
        self._dataset.drop_index(name)
        return self._dataset.version

    def drop_columns(self, columns: list[str]) -> int:
        self._dataset.drop_columns(columns)
        return self._dataset.version

    def alter_columns(self, alterations: Alterations) -> int:
        parsed = [
            {**given, "data_type": serving.parse_type(given["data_type"])} if "data_type" in given else given
            for given in alterations
        ]
        self._dataset.alter_columns(*parsed)
        return self._dataset.version


def _arguments(selection: Selection) -> dict[str, Any]:
    """Return the arguments of a local scan, without those that are not given."""
    given = selection.as_fields()
    given.pop("compression", None)
    if selection.order_by is not None:
        given["order_by"] = [
            ColumnOrdering(each["column"], each["ascending"], each["nulls_first"])
            for each in selection.order_by
        ]
    return given


def _in_utc(time: datetime) -> str:
    """Return a time as servers write it; one without a zone is local."""
    return time.astimezone(UTC).isoformat()


def _jsonable(ref: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _in_utc(value) if isinstance(value, datetime) else value for name, value in ref.items()}
