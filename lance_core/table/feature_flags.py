"""Feature flags of a manifest, which decide who may read and write a table.

A reader must refuse a table whose reader flags contain a bit that the reader does not implement. This check
comes before anything else in the manifest is used.

Source: docs/format.md, "Manifest".
"""

from lance_core.errors import CorruptFileError, UnsupportedFeatureError

DELETION_FILES = 1
STABLE_ROW_IDS = 2
V2_FORMAT = 4
TABLE_CONFIG = 8
BASE_PATHS = 16
INLINE_TRANSACTIONS_ONLY = 32
COVERING_INDEX_COLUMNS = 128
MIXED_FILE_VERSIONS = 256
TAGGED_FRAGMENT_REUSE_INDEX = 1024
SPILLED_LINEAGE = 2048
FIELD_IDS_NEVER_REUSED = 32768

_READABLE = (
    DELETION_FILES
    | STABLE_ROW_IDS
    | V2_FORMAT
    | TABLE_CONFIG
    | BASE_PATHS
    | INLINE_TRANSACTIONS_ONLY
    | MIXED_FILE_VERSIONS
    | SPILLED_LINEAGE
    # These two flags change the meaning of indices. Scans here use no index.
    | COVERING_INDEX_COLUMNS
    | TAGGED_FRAGMENT_REUSE_INDEX
)

STICKY = INLINE_TRANSACTIONS_ONLY | MIXED_FILE_VERSIONS | TAGGED_FRAGMENT_REUSE_INDEX | FIELD_IDS_NEVER_REUSED
"""Bits that stay once they are set. The other bits follow from the content of the table."""

_WRITABLE = _READABLE | TABLE_CONFIG | FIELD_IDS_NEVER_REUSED

_REFUSED = {
    64: "data overlay files",
    512: "stable row ids with a fragment reuse index",
    16384: "managed blobs",
    65536: "zone write seed",
}

_PAIRED = MIXED_FILE_VERSIONS | TAGGED_FRAGMENT_REUSE_INDEX | 16384 | 65536
"""Bits that must be set in both words or in neither."""


def check_readable(reader_flags: int, writer_flags: int, has_max_field_id: bool, file: str) -> None:
    """Refuse a manifest that this package cannot read correctly.

    Args:
        reader_flags, writer_flags: the two words of the manifest.
        has_max_field_id: whether the manifest has `max_allocated_field_id`.
        file: name of the manifest for messages.

    Raises:
        UnsupportedFeatureError: a reader flag is not implemented; the message names it.
        CorruptFileError: the flags contradict each other or the manifest.
    """
    for bit in _bits(reader_flags & ~_READABLE & ~FIELD_IDS_NEVER_REUSED):
        name = _REFUSED.get(bit, "unknown to this version")
        raise UnsupportedFeatureError(f"reader feature flag {bit} ({name})", file=file)
    for bit in _bits((reader_flags ^ writer_flags) & _PAIRED):
        raise CorruptFileError(
            f"feature flag {bit} must be set for readers and writers, or for neither", file=file
        )
    if reader_flags & FIELD_IDS_NEVER_REUSED:
        raise CorruptFileError(
            f"feature flag {FIELD_IDS_NEVER_REUSED} must not be set for readers", file=file
        )
    if bool(writer_flags & FIELD_IDS_NEVER_REUSED) != has_max_field_id:
        raise CorruptFileError(
            f"feature flag {FIELD_IDS_NEVER_REUSED} and max_allocated_field_id must be set together",
            file=file,
        )


def check_writable(reader_flags: int, writer_flags: int, file: str) -> None:
    """Refuse to write to a table with a reader or writer flag that this package does not implement.

    Args:
        reader_flags, writer_flags: the two words of the manifest.
        file: name of the manifest for messages.

    Raises:
        UnsupportedFeatureError: a flag is not implemented; the message names it.
    """
    for bit in _bits((reader_flags | writer_flags) & ~_WRITABLE):
        name = _REFUSED.get(bit, "unknown to this version")
        raise UnsupportedFeatureError(f"writer feature flag {bit} ({name})", file=file)


def _bits(flags: int) -> list[int]:
    return [1 << position for position in range(flags.bit_length()) if flags >> position & 1]
