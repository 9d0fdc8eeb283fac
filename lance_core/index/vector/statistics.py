"""Facts about segments of vector indices that their files contain, with the keys of the reference."""

from __future__ import annotations

from typing import Any

from lance_core.index.index_file import IndexFile
from lance_core.index.segment_files import SegmentFiles
from lance_core.index.vector.model import AUXILIARY_FILE, INDEX_FILE, SegmentModel


def vector_statistics(files: SegmentFiles) -> dict[str, Any]:
    """Return the kind, the metric, the partitions with their centroids, and the description of the codes.

    A segment without files, of an index that has no data yet, has no facts.

    Raises:
        CorruptFileError: A file is damaged.
        UnsupportedFeatureError: A layout that is not supported.
        StorageError: The storage failed.
    """
    if not files.has(AUXILIARY_FILE):
        return {}
    with files.open(INDEX_FILE) as index, files.open(AUXILIARY_FILE) as auxiliary:
        model = SegmentModel(IndexFile(index), IndexFile(auxiliary))
    # Product codes are those of normalised vectors for the metric cosine, and compared by l2.
    is_normalised = model.metric == "cosine" and model.kind.endswith("PQ")
    sub_index = {**model.description, "metric_type": "l2" if is_normalised else model.metric}
    sub_index.pop("codebook_position", None)
    sub_index.pop("codebook_tensor", None)
    if model.graph_settings:
        sub_index |= {**model.graph_settings[0], "index_type": "HNSW"}
    else:
        sub_index["index_type"] = model.kind.rpartition("_")[2]
    return {
        "index_type": model.kind,
        "uuid": files.directory.rpartition("/")[2],
        "metric_type": model.metric,
        "num_partitions": len(model.partitions),
        "sub_index": sub_index,
        "partitions": [{"size": size} for size in model.partitions.lengths.tolist()],
        "centroids": model.centroids.tolist(),
        "loss": model.loss,
        "index_file_version": "V3",
    }
