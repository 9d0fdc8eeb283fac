"""Values of the dictionary columns of 0.1 tables, which manifest files contain.

Data files of 0.1 hold only the keys. Every manifest file begins with the values, and the fields of the schema
hold their positions. For later file versions these positions are empty.

Source: docs/format.md, "0.1".
"""

from collections.abc import Mapping

import pyarrow as pa

from lance_core.encodings.v0_1.dictionary import read_values
from lance_core.errors import UnsupportedFeatureError
from lance_core.file.footer import FileVersion
from lance_core.proto import table_pb2
from lance_core.storage.base import Bytes
from lance_core.table.manifest import Manifest


def dictionaries_of(manifest: Manifest) -> Mapping[int, pa.Array]:
    """Return the dictionary values of a manifest by field id; empty unless its data files are 0.1.

    Raises:
        CorruptFileError: the bytes of the values contradict the format.
    """
    if manifest.data_storage_version != FileVersion.V0_1.name:
        return {}
    return {
        field.id: read_values(field.dictionary, field.arrow_type.value_type, field.name)
        for field in manifest.schema.field_by_id.values()
        if field.dictionary is not None and pa.types.is_dictionary(field.arrow_type)
    }


def place_dictionaries(message: table_pb2.Manifest, values: Mapping[int, pa.Array]) -> bytes:
    """Return the bytes with which the manifest file begins, and set the positions of the values in `message`.

    Args:
        message: the new manifest, changed in place.
        values: dictionary values by field id.

    Raises:
        UnsupportedFeatureError: a 0.1 table with rows has a dictionary column without known values.
    """
    from lance_core.encodings.v0_1.encoders import write_dictionary  # imported late: readers need no encoders

    sink = _Sink()
    is_0_1 = message.data_format.version == FileVersion.V0_1.name
    for field in message.fields:
        if not field.HasField("dictionary"):
            continue
        field.dictionary.Clear()  # positions in the file of the previous version
        if not is_0_1:
            continue
        if field.id not in values and message.fragments:
            raise UnsupportedFeatureError(
                "dictionary column of a 0.1 table without known values", column=field.name
            )
        if len(known := values.get(field.id, ())):
            field.dictionary.offset, field.dictionary.length = write_dictionary(known, sink)
    return b"".join(sink.parts)


class _Sink:
    """In-memory file that collects what is written to it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.position = 0

    def write(self, data: Bytes) -> None:
        self.parts.append(bytes(data))
        self.position += len(self.parts[-1])
