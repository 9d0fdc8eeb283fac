"""Files that may be compressed: gzip and zstd, by the end of their names and by their first bytes."""

from pathlib import Path, PurePath

import pyarrow as pa

from lance_core.errors import InvalidInputError

CODECS = {".gz": "gzip", ".zst": "zstd"}
"""By the last suffix of a file's name."""

_MAGIC = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}


def suffixes(path: PurePath) -> tuple[str, str | None]:
    """Return the suffix of the kind of a file, in lower case, and its codec, both from its name.

    `trips.CSV.gz` gives `(".csv", "gzip")`, `trips.csv` gives `(".csv", None)`.
    """
    codec = CODECS.get(path.suffix.lower())
    return (path if codec is None else path.with_suffix("")).suffix.lower(), codec


def open_input(path: str) -> pa.NativeFile:
    """Open a file as a stream of its bytes, decompressed. The first bytes decide, whatever the name is.

    Raises:
        InvalidInputError: the name says that the file is compressed, and its first bytes are not.
    """
    named = suffixes(Path(path))[1]
    with Path(path).open("rb") as file:
        begin = file.read(max(map(len, _MAGIC)))
    found = next((codec for magic, codec in _MAGIC.items() if begin.startswith(magic)), None)
    if named is not None and found is None:
        raise InvalidInputError("the file is not compressed as its name says", file=path, expected=named)
    return pa.OSFile(path) if found is None else pa.CompressedInputStream(pa.OSFile(path), found)


def open_output(path: str, codec: str | None) -> pa.NativeFile:
    """Create a file, and compress what is written to it; `codec` as `suffixes` gives it."""
    file = pa.OSFile(path, "wb")
    return file if codec is None else pa.CompressedOutputStream(file, codec)
