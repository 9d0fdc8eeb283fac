"""Details of a JSON index in the manifest: the path of its values, and the kind of its files."""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError

from lance_core.proto import index_pb2


class JsonDetails(NamedTuple):
    """Path and kind of a JSON index, as the manifest has them."""

    path: str
    """JSON path of the values."""
    type_url: str
    """Type URL of the details of the index inside."""
    details: bytes
    """Details of the index inside."""

    @property
    def kind(self) -> str:
        """Kind of the index inside in lower case, such as "btree"."""
        return self.type_url.rpartition(".")[2].lower().removesuffix("indexdetails")


def parse_details(details: bytes) -> JsonDetails | None:
    """Return the details of a JSON index; None if they do not decode."""
    try:
        message = index_pb2.JsonIndexDetails.FromString(details)
    except DecodeError:
        return None
    target = message.target_details
    return JsonDetails(message.path, target.type_url, target.value)


def details_bytes(details: JsonDetails) -> bytes:
    """Return the details of a JSON index for the manifest."""
    message = index_pb2.JsonIndexDetails(path=details.path)
    message.target_details.type_url, message.target_details.value = details.type_url, details.details
    return message.SerializeToString(deterministic=True)
