"""Training of vector indices apart from building them, with the names of the reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from lance_core.api.dataset.methods.opened import OpenedDataset
from lance_core.arguments import named_arguments
from lance_core.errors import (
    CommitUnknownError,
    CorruptFileError,
    InvalidInputError,
    LanceError,
    UnsupportedFeatureError,
)

if TYPE_CHECKING:
    from lance_core.api.fragment import LanceFragment

_FILE_ROWS = 1 << 16
"""Rows of a file of coded vectors that are read at once."""


@named_arguments
@dataclass
class IvfModel:
    """Partitions of a vector index."""

    centroids: pa.FixedSizeListArray
    """Centroid of each partition."""
    distance_type: str
    """Metric that the partitions are for."""

    @property
    def num_partitions(self) -> int:
        """Number of partitions."""
        return len(self.centroids)

    def save(self, uri: str, *, storage_options: Mapping[str, str] | None = None) -> None:
        """Write the partitions to a Lance file, which the reference reads, too.

        Raises:
            StorageError: The file cannot be written.
        """
        _save("centroids", self.centroids, {"distance_type": self.distance_type}, uri, storage_options)

    @classmethod
    def load(cls, uri: str, *, storage_options: Mapping[str, str] | None = None) -> Self:
        """Return the partitions that `save` wrote.

        Raises:
            CorruptFileError: The file has no partitions.
            StorageError: The file cannot be read.
        """
        centroids, metadata = _load("centroids", "distance_type", uri, storage_options)
        return cls(centroids, metadata[b"distance_type"].decode())


@named_arguments
@dataclass
class PqModel:
    """Codebook of product codes."""

    num_subvectors: int
    """Number of sub-vectors of a vector."""
    codebook: pa.FixedSizeListArray
    """Codewords, in the order [sub-vector][codeword][dimension of the sub-vector]."""
    num_bits: int = 8
    """Bits of a code."""

    @property
    def dimension(self) -> int:
        """Elements of a vector."""
        return int(self.codebook.type.list_size)

    def save(self, uri: str, *, storage_options: Mapping[str, str] | None = None) -> None:
        """Write the codebook to a Lance file, which the reference reads, too.

        Raises:
            StorageError: The file cannot be written.
        """
        numbers = {"num_subvectors": str(self.num_subvectors), "num_bits": str(self.num_bits)}
        _save("codebook", self.codebook, numbers, uri, storage_options)

    @classmethod
    def load(cls, uri: str, *, storage_options: Mapping[str, str] | None = None) -> Self:
        """Return the codebook that `save` wrote.

        Raises:
            CorruptFileError: The file has no codebook.
            StorageError: The file cannot be read.
        """
        codebook, metadata = _load("codebook", "num_subvectors", uri, storage_options)
        return cls(int(metadata[b"num_subvectors"]), codebook, int(metadata.get(b"num_bits", b"8")))


def _save(
    name: str,
    vectors: pa.FixedSizeListArray,
    metadata: Mapping[str, str],
    uri: str,
    storage_options: Mapping[str, str] | None,
) -> None:
    """Write a file with one column of vectors."""
    from lance_core.api.file import LanceFileWriter  # late: it is rarely needed

    schema = pa.schema([pa.field(name, vectors.type)], metadata=dict(metadata))
    options = None if storage_options is None else dict(storage_options)
    with LanceFileWriter(uri, schema, storage_options=options) as writer:
        writer.write_batch(pa.record_batch([vectors], schema=schema))


def _load(
    name: str, key: str, uri: str, storage_options: Mapping[str, str] | None
) -> tuple[pa.FixedSizeListArray, Mapping[bytes, bytes]]:
    """Return the column of a file, and the metadata of its schema, which has `key`."""
    from lance_core.api.file import LanceFileReader  # late: it is rarely needed

    options = None if storage_options is None else dict(storage_options)
    rows = LanceFileReader(uri, storage_options=options).read_all().to_table()
    metadata = rows.schema.metadata or {}
    if rows.column_names != [name] or key.encode() not in metadata:
        raise CorruptFileError(
            f"file of a trained model with {name} and {key}", file=uri, found=rows.column_names
        )
    return rows.column(name).combine_chunks(), metadata


@named_arguments
class IndicesBuilder:
    """Trains what several machines build the segments of one vector index with.

    `LanceDataset.create_index_uncommitted` takes the results as `ivf_centroids` and `pq_codebook`.
    """

    def __init__(self, dataset: OpenedDataset, column: str) -> None:
        """Choose the column of vectors of a dataset."""
        self.dataset = dataset
        self.column = [column]

    @property
    def dimension(self) -> int:
        """Elements of a vector of the column; of one vector if a row has a list of vectors.

        Raises:
            UnknownColumnError: There is no such column.
            ColumnTypeError: It has no vectors.
        """
        from lance_core.changes.indexing.training import vector_type  # late: it is rarely needed

        return vector_type(self.dataset.snapshot, self.column[0])[1].dimension

    def train_ivf(
        self,
        num_partitions: int | None = None,
        *,
        distance_type: str = "l2",
        accelerator: None = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        fragment_ids: Sequence[int] | None = None,
    ) -> IvfModel:
        """Return partitions for the rows of a sample.

        Args:
            num_partitions: Number of partitions; None means the square root of the number of rows.
            distance_type: "l2", "cosine" or "dot".
            accelerator: Must be None.
            sample_rate: Sampled rows per partition.
            max_iters: Most rounds of k-means.
            fragment_ids: Ids of the fragments that are sampled; None means all.

        Raises:
            InvalidInputError: An argument is wrong, or there are no vectors.
        """
        if accelerator is not None:
            raise InvalidInputError("accelerator", expected="None", found=accelerator)
        num_rows = sum(fragment.num_rows for fragment in self.dataset.snapshot.manifest.fragments)
        count = num_partitions or max(1, round(num_rows**0.5))
        options = {
            "metric": distance_type,
            "num_partitions": count,
            "sample_rate": sample_rate,
            "max_iters": max_iters,
        }
        model = self._train("IVF_FLAT", options, fragment_ids)
        return IvfModel(vector_array(model.centroids), distance_type)

    def train_pq(
        self,
        ivf_model: IvfModel,
        num_subvectors: int | None = None,
        *,
        sample_rate: int = 256,
        max_iters: int = 50,
        num_bits: int = 8,
        fragment_ids: Sequence[int] | None = None,
    ) -> PqModel:
        """Return a codebook for the differences of the rows of a sample to their centroids.

        Args:
            ivf_model: Partitions, from `train_ivf`.
            num_subvectors: Number of sub-vectors; None means one per 16 or 8 dimensions.
            sample_rate: Sampled rows per codeword.
            max_iters: Most rounds of k-means.
            num_bits: Bits of a code, 8 or 4.
            fragment_ids: Ids of the fragments that are sampled; None means all.

        Raises:
            InvalidInputError: An argument is wrong, or there are fewer rows than codewords.
        """
        options = {
            "metric": ivf_model.distance_type,
            "ivf_centroids": ivf_model.centroids,
            "num_sub_vectors": num_subvectors,
            "sample_rate": sample_rate,
            "max_iters": max_iters,
            "num_bits": num_bits,
        }
        codebook = self._train("IVF_PQ", options, fragment_ids).codebook
        dimension = ivf_model.centroids.type.list_size
        return PqModel(len(codebook), vector_array(codebook.reshape(-1, dimension)), num_bits)

    def prepare_global_ivf_pq(
        self,
        num_partitions: int | None,
        num_subvectors: int | None,
        *,
        distance_type: str = "l2",
        accelerator: None = None,
        sample_rate: int = 256,
        max_iters: int = 50,
        num_bits: int = 8,
        fragment_ids: Sequence[int] | None = None,
    ) -> dict[str, pa.FixedSizeListArray]:
        """Return `ivf_centroids` and `pq_codebook`, for `LanceDataset.create_index_uncommitted`.

        The arguments and errors are those of `train_ivf` and `train_pq`.
        """
        ivf = self.train_ivf(
            num_partitions,
            distance_type=distance_type,
            accelerator=accelerator,
            sample_rate=sample_rate,
            max_iters=max_iters,
            fragment_ids=fragment_ids,
        )
        pq = self.train_pq(
            ivf,
            num_subvectors,
            sample_rate=sample_rate,
            max_iters=max_iters,
            num_bits=num_bits,
            fragment_ids=fragment_ids,
        )
        return {"ivf_centroids": ivf.centroids, "pq_codebook": pq.codebook}

    def transform_vectors(
        self,
        ivf: IvfModel,
        pq: PqModel,
        dest_uri: str,
        fragments: Sequence[LanceFragment] | None = None,
        partition_ds_uri: str | None = None,
    ) -> None:
        """Write the partition and the codes of the vectors of some fragments to a Lance file.

        Several machines may do this, and `shuffle_transformed_vectors` for their files. One machine then
        builds the index of all files with `load_shuffled_vectors`. Each step may run in `lance_core` or in
        the reference. `LanceDataset.create_index_uncommitted` is simpler.

        Args:
            ivf: Partitions, from `train_ivf`.
            pq: Codebook, from `train_pq`.
            dest_uri: Path or URI of the file, which is replaced if it exists.
            fragments: Fragments of the dataset; None means all.
            partition_ds_uri: Must be None.

        Raises:
            InvalidInputError: There are no fragments, or the models do not fit the column.
            UnsupportedFeatureError: `partition_ds_uri` is given.
            StorageError: The file cannot be written.
        """
        from lance_core.api.file import LanceFileWriter  # late: it is rarely needed
        from lance_core.changes.indexing.coded_vectors import coded_schema, coded_vectors

        if partition_ds_uri is not None:
            raise UnsupportedFeatureError("partition_ds_uri of transform_vectors", expected="None")
        if fragments is None:
            fragment_ids = list(self.dataset.snapshot.manifest.fragment_by_id)
        elif not fragments:
            raise InvalidInputError("fragments must be a non-empty list or None")
        else:
            fragment_ids = [fragment.fragment_id for fragment in fragments]
        batches = coded_vectors(self.dataset.snapshot, self.column[0], _options_of(ivf, pq), fragment_ids)
        first = next(batches, None)
        schema = coded_schema(pq.num_subvectors * pq.num_bits // 8)
        with LanceFileWriter(dest_uri, schema) as writer:
            if first is not None:
                writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)

    def shuffle_transformed_vectors(
        self,
        unsorted_filenames: list[str],
        dir_path: str,
        ivf: IvfModel,
        shuffle_output_root_filename: str = "sorted",
    ) -> list[str]:
        """Write the rows of files of `transform_vectors` to one file, sorted by partition.

        Memory is bounded, apart from the rows of one partition: more rows wait in the directory for temporary
        files (`TMPDIR`).

        Args:
            unsorted_filenames: Names of the files in the directory.
            dir_path: Path or URI of the directory, also of the new file.
            ivf: The partitions that the vectors were assigned to.
            shuffle_output_root_filename: Beginning of the name of the new file, which is
                `<beginning>_0.lance`.

        Returns:
            The name of the new file, in a list; an empty list if there are no rows.

        Raises:
            InvalidInputError: The names are no list of texts, or a file has other rows.
            StorageError: A file cannot be read or written.
        """
        from lance_core.api.file import LanceFileWriter  # late: it is rarely needed
        from lance_core.changes.indexing.coded_vectors import by_partition

        batches = by_partition(_coded_files(unsorted_filenames, dir_path), ivf.num_partitions)
        name = f"{shuffle_output_root_filename}_0.lance"
        first = next(batches, None)
        if first is None:
            return []
        with LanceFileWriter(f"{dir_path}/{name}", first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
        return [name]

    def load_shuffled_vectors(
        self,
        filenames: list[str],
        dir_path: str,
        ivf: IvfModel,
        pq: PqModel,
        index_name: str | None = None,
    ) -> None:
        """Build an IVF_PQ index of the rows of coded files, and move to the version with it.

        The index covers the fragments that have a row in the files. A segment of the index that covers some
        of these fragments and no others is replaced.

        Args:
            filenames: Names of the files in the directory, from `shuffle_transformed_vectors` or from
                `transform_vectors`.
            dir_path: Path or URI of the directory.
            ivf: The partitions that the vectors were assigned to.
            pq: The codebook that they were coded with.
            index_name: Name of the index; None means `<column>_idx`.

        Raises:
            InvalidInputError: The names are no list of texts, a file has other rows, there are no rows, or
                the dataset lacks a fragment of a row.
            CommitConflictError: Fragments were rewritten meanwhile.
            StorageError: A file cannot be read or written.
        """
        from lance_core.changes.indexing.coded_vectors import build_of_coded  # late: it is rarely needed
        from lance_core.changes.indexing.create import commit_segments, discard

        snapshot = self.dataset.snapshot
        coded = _coded_files(filenames, dir_path)
        segment = build_of_coded(snapshot, self.column[0], _options_of(ivf, pq), coded)
        name = segment.name if index_name is None else index_name
        try:
            self.dataset.move_to(commit_segments(snapshot, name, self.column[0], [segment]))
        except CommitUnknownError:
            raise
        except LanceError:
            discard(snapshot.storage, [segment])
            raise

    def _train(self, kind: str, options: dict[str, Any], fragment_ids: Sequence[int] | None) -> Any:
        from lance_core.changes.indexing.training import train_vector_index  # late: it is rarely needed

        return train_vector_index(self.dataset.snapshot, self.column[0], kind, options, fragment_ids)


def _options_of(ivf: IvfModel, pq: PqModel) -> dict[str, Any]:
    """Return the options of an index with trained partitions and a trained codebook."""
    return {
        "metric": ivf.distance_type,
        "ivf_centroids": ivf.centroids,
        "pq_codebook": pq.codebook,
        "num_sub_vectors": pq.num_subvectors,
        "num_bits": pq.num_bits,
    }


def _coded_files(names: list[str], directory: str) -> Iterator[pa.RecordBatch]:
    """Return the rows of files of a directory, one file after the other."""
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidInputError("filenames must be a list of strings", found=repr(names))
    return chain.from_iterable(_coded_file(f"{directory}/{name}") for name in names)


def _coded_file(path: str) -> Iterator[pa.RecordBatch]:
    from lance_core.api.file import LanceFileReader  # late: it is rarely needed
    from lance_core.changes.indexing.coded_vectors import SORTED

    reader = LanceFileReader(path)
    is_sorted = reader.metadata().schema.names == [SORTED]  # a row is a partition
    yield from reader.read_all(batch_size=1 if is_sorted else _FILE_ROWS).to_batches()


def vector_array(values: np.ndarray[Any, Any] | Sequence[Sequence[float]]) -> pa.FixedSizeListArray:
    """Return a matrix as an array of vectors. Lists of numbers become float32."""
    matrix = values if isinstance(values, np.ndarray) else np.asarray(values, np.float32)
    flat = pa.array(np.ascontiguousarray(matrix).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, matrix.shape[1])
