"""Base paths in an S3 store, with storage options of their own."""

from __future__ import annotations

import pickle
from pathlib import Path

import lance
import pyarrow as pa

import lance_core
from lance_core import DatasetBasePath, LanceOperation
from lance_core.storage.scoped_options import scoped_options
from support.oracles.comparison import assert_tables_equal
from support.stores.s3 import S3


def rows(start: int, stop: int) -> pa.Table:
    return pa.table({"id": pa.array(range(start, stop))})


def test_options_of_a_base_override_shared_options() -> None:
    options = {"a": "1", "b": "2", "base_1.a": "3", "base_12.headers.x": "4", "base_x.a": "5", "base_1.": "6"}
    unscoped = {"a": "1", "b": "2", "base_x.a": "5", "base_1.": "6"}
    assert scoped_options(options, None) == unscoped
    assert scoped_options(options, 1) == unscoped | {"a": "3"}
    assert scoped_options(options, 12) == unscoped | {"headers.x": "4"}


def test_bases_have_storage_options_of_their_own(tmp_path: Path, s3: S3, bucket: str) -> None:
    """The base of a local dataset is in S3. Its options come from `base_<id>.<key>`, or from
    `base_store_params`, which has precedence; other processes and versions use them, too.

    T46: the options are in no text about the opened version.
    """
    url = f"s3://{bucket}/base"
    wrong = {f"base_1.{key}": "wrong" for key in s3.options()} | {"base_1.aws_endpoint": "http://127.0.0.1:9"}
    for number, arguments in enumerate(
        (
            {"storage_options": {f"base_1.{key}": value for key, value in s3.options().items()}},
            {"storage_options": s3.options() | {"base_2.aws_region": "nowhere", "base_x.a": "b"}},
            {"storage_options": wrong, "base_store_params": {url: s3.options()}},
        )
    ):
        path = tmp_path / str(number)
        dataset = lance_core.write_dataset(
            rows(0, 10),
            path,
            initial_bases=[DatasetBasePath(url, "far")],
            target_bases=["far"],
            **arguments,
        )
        dataset.delete("id = 3")
        dataset = lance_core.write_dataset(rows(10, 12), dataset, mode="append", target_bases=["far"])
        assert {file.base_id for each in dataset.get_fragments() for file in each.data_files()} == {1}
        reopened = lance_core.write_dataset(
            rows(12, 13), path, mode="append", target_bases=["far"], **arguments
        )
        for opened in (reopened, pickle.loads(pickle.dumps(reopened))):
            assert opened.checkout_version(3).count_rows() == 11
            assert_tables_equal(lance.dataset(str(path), **arguments).to_table(), opened.to_table())
            opened.checkout_latest()
            assert len(opened.versions()) == 4
        fragments = lance_core.write_fragments(rows(13, 14), reopened, target_bases=["far"])
        done = lance_core.LanceDataset.commit(
            str(path), LanceOperation.Append(fragments), reopened.version, **arguments
        )
        assert done.count_rows() == 13
    assert "wrong" not in repr(reopened.snapshot)
