"""Training of vector indices apart from building them, for builds on several machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lance_core.changes.indexing.column import IndexedColumn, indexed_rows
from lance_core.errors import ColumnTypeError, InvalidInputError
from lance_core.index.build import RowKeys
from lance_core.index.progress import unobserved
from lance_core.index.vector.build.options import parse_options
from lance_core.index.vector.build.training import TrainedModel, train
from lance_core.index.vector.build.vectors import VectorType
from lance_core.table.snapshot import Snapshot


def vector_type(snapshot: Snapshot, column: str) -> tuple[IndexedColumn, VectorType]:
    """Return the column at a dotted path, and the type of its vectors.

    Raises:
        UnknownColumnError: There is no such column.
        ColumnTypeError: It has no vectors.
    """
    resolved = IndexedColumn.resolve(snapshot.manifest.schema, column)
    try:
        return resolved, VectorType.of(resolved.stored_field.type)
    except TypeError as error:
        raise ColumnTypeError(f"column {column}: {error}", found=resolved.field.arrow_type) from None


def train_vector_index(
    snapshot: Snapshot,
    column: str,
    kind: str,
    parameters: Mapping[str, object],
    fragment_ids: Sequence[int] | None = None,
) -> TrainedModel:
    """Return the centroids and the codebook of a vector index on some fragments. Nothing is written.

    Args:
        snapshot: The version to read.
        column: Dotted path of the column.
        kind: Kind of the index, such as "IVF_PQ".
        parameters: Options of the index by name.
        fragment_ids: Ids of the fragments; None for all.

    Raises:
        UnknownColumnError: There is no such column.
        ColumnTypeError: It has no vectors.
        InvalidInputError: A parameter is wrong, there is no such fragment, or there are too few rows.
        LanceError: Rows cannot be read.
    """
    resolved, vectors = vector_type(snapshot, column)
    known = snapshot.manifest.fragment_by_id
    chosen = sorted(known) if fragment_ids is None else sorted(set(fragment_ids))
    unknown = [number for number in chosen if number not in known]
    if unknown:
        raise InvalidInputError("fragment_ids", expected="ids of fragments", found=unknown[0])
    options = parse_options(kind, parameters, vectors)
    model = train(indexed_rows(snapshot, resolved, chosen, RowKeys.IDS, unobserved), options, vectors)
    if model is None:
        raise InvalidInputError(f"too few rows to train {kind}")
    return model
