"""Details of an index as the manifest has them, as plain values with the keys of the reference."""

from __future__ import annotations

import json
from typing import Any

from google.protobuf.message import DecodeError

from lance_core.proto import index_pb2

_METRICS = ("L2", "COSINE", "DOT", "HAMMING")
_ROTATIONS = ("fast", "matrix")
_CODE_OPTIONS = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")


def shown_details(type_url: str, details: bytes) -> dict[str, Any]:
    """Return the details of an index; empty for kinds without details, and for details that do not decode.

    Args:
        type_url: Type URL of the message.
        details: The message.
    """
    kind = type_url.rpartition(".")[2].lower().removesuffix("indexdetails")
    shown = {"inverted": _text_details, "json": _json_details, "vector": _vector_details}.get(kind)
    try:
        return {} if shown is None else shown(details)
    except (DecodeError, ValueError):
        return {}


def _text_details(details: bytes) -> dict[str, Any]:
    message = index_pb2.InvertedIndexDetails.FromString(details)
    return {
        "lance_tokenizer": None,  # the message lacks it
        "base_tokenizer": message.base_tokenizer if message.HasField("base_tokenizer") else None,
        "language": json.loads(message.language or "null"),
        "with_position": message.with_position,
        "max_token_length": message.max_token_length if message.HasField("max_token_length") else None,
        "lower_case": message.lower_case,
        "stem": message.stem,
        "remove_stop_words": message.remove_stop_words,
        "custom_stop_words": None,  # as lance_tokenizer
        "ascii_folding": message.ascii_folding,
        "min_ngram_length": message.min_ngram_length,
        "max_ngram_length": message.max_ngram_length,
        "prefix_only": message.prefix_only,
        "block_size": message.block_size,
        **dict.fromkeys(_CODE_OPTIONS, False),
        "document_granularity": "row",
    }


def _json_details(details: bytes) -> dict[str, Any]:
    message = index_pb2.JsonIndexDetails.FromString(details)
    target = message.target_details
    return {"path": message.path, "target_details": shown_details(target.type_url, target.value)}


def _vector_details(details: bytes) -> dict[str, Any]:
    if not details:
        return {}
    message = index_pb2.VectorIndexDetails.FromString(details)
    metric = message.metric_type
    found: dict[str, Any] = {"metric_type": _METRICS[metric] if metric < len(_METRICS) else "UNKNOWN"}
    if message.target_partition_size:
        found["target_partition_size"] = message.target_partition_size
    if message.HasField("hnsw_index_config"):
        graph = message.hnsw_index_config
        found["hnsw"] = {
            "max_connections": graph.max_connections,
            "construction_ef": graph.construction_ef,
            "max_level": graph.max_level,
        }
    codes: dict[str, Any] | None = None
    match message.WhichOneof("compression"):
        case "pq":
            codes = {"num_bits": message.pq.num_bits, "num_sub_vectors": message.pq.num_sub_vectors}
        case "sq":
            codes = {"num_bits": message.sq.num_bits}
        case "rq":
            rotation = _ROTATIONS[message.rq.rotation_type == 1]
            codes = {"num_bits": message.rq.num_bits, "rotation_type": rotation}
    if codes is not None:
        found["compression"] = {"type": message.WhichOneof("compression"), **codes}
    return {**found, "runtime_hints": dict(message.runtime_hints)}
