"""Column encodings: the content of all pages of a column.

values         values of the column
zone_index     another column encoding, with statistics of zones of rows beside the pages
blob           descriptors: the position and size of each value in the file
"""

from google.protobuf.message import DecodeError

from lance_core.encodings.v2_0.registry import COLUMN_ENCODING, unknown_name
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_0_pb2 as proto


def check_column_encoding(encoding_type: str, encoding: bytes, expected: str) -> None:
    """Check that the pages of a column hold the `expected` content, "values" or "blob".

    Raises:
        UnsupportedFeatureError: the pages hold something else; the message names it.
        CorruptData: the description cannot be parsed.
    """
    if encoding_type != COLUMN_ENCODING:
        raise UnsupportedFeatureError(f"column description {encoding_type!r}")
    try:
        message = proto.ColumnEncoding.FromString(encoding)
    except DecodeError:
        raise CorruptData("the column's description cannot be parsed") from None
    while message.WhichOneof("column_encoding") == "zone_index":
        message = message.zone_index.inner
    kind = message.WhichOneof("column_encoding")
    if kind != expected:
        raise UnsupportedFeatureError(f"column encoding {kind or unknown_name(message)!r}")
