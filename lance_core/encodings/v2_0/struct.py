"""Struct pages: only a number of rows. The members have columns of their own, and no struct is null."""

from lance_core.encodings.v2_0.registry import unknown_name
from lance_core.errors import UnsupportedFeatureError
from lance_core.proto import encodings_v2_0_pb2 as proto


def check_struct_page(message: proto.ArrayEncoding) -> None:
    """Refuse a page of structs that stores anything.

    Raises:
        UnsupportedFeatureError: the page has another encoding; the message names it.
    """
    kind = message.WhichOneof("array_encoding")
    if kind != "struct":
        raise UnsupportedFeatureError(f"encoding {kind or unknown_name(message)!r} in a page of structs")
