"""Dictionaries: a plain page of keys per batch. The values are stored once, in the file with the schema.

The values lie in the manifest of a table, or in a data file that is opened alone. They are one page:
var-binary for strings and binaries, plain for numbers. An empty string is always null, even in a field that
is not nullable; there is no other way to store a null. Source: docs/format.md, "0.1".
"""

import numpy as np
import pyarrow as pa

from lance_core import kernels
from lance_core.encodings.v0_1.pages import Pages, Reader, Run
from lance_core.encodings.v0_1.plain import PlainReader
from lance_core.encodings.v0_1.var_binary import VarBinaryReader
from lance_core.encodings.values import offset_bits
from lance_core.errors import UnsupportedFeatureError
from lance_core.schema.fields import StoredDictionary
from lance_core.storage.memory import MemoryFile


class DictionaryReader:
    """Reader of keys. All batches share one array of values."""

    def __init__(self, pages: Pages, arrow_type: pa.DataType, values: pa.Array) -> None:
        self._keys = PlainReader(pages, arrow_type.index_type)
        self._pages = pages
        self._type = arrow_type
        self._values = values

    @property
    def num_bytes(self) -> float:
        return self._keys.num_bytes

    def read(self, run: Run) -> pa.Array:
        keys = self._keys.read(run)
        try:
            kernels.check_indices(keys.buffers()[1], len(keys), keys.type.bit_width, len(self._values))
        except kernels.CorruptData as error:
            raise self._pages.corrupt(
                run.first_batch, str(error), f"below {len(self._values)}", None
            ) from None
        return pa.DictionaryArray.from_arrays(keys, self._values, ordered=self._type.ordered, safe=False)


def read_values(stored: StoredDictionary, arrow_type: pa.DataType, column: str) -> pa.Array:
    """Return the values of the dictionary column named `column`.

    Raises:
        CorruptFileError: the bytes contradict the format.
        UnsupportedFeatureError: a type of values that 0.1 files cannot hold.
    """
    if stored.length == 0:
        return pa.array([], arrow_type)
    file = MemoryFile(stored.file, stored.content)
    pages = Pages(file, column, np.array([stored.position], np.int64), np.array([stored.length], np.int64))
    reader: Reader
    if offset_bits(arrow_type):
        reader = VarBinaryReader(pages, arrow_type, nullable=True)
    elif pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type):
        reader = PlainReader(pages, arrow_type)
    else:
        raise UnsupportedFeatureError(
            "type of dictionary values", file=stored.file, column=column, found=arrow_type
        )
    return reader.read(Run(0, np.zeros(1, np.int64), pages.lengths))
