"""One segment of a full text index, opened."""

from __future__ import annotations

import json

import pyroaring

from lance_core.errors import LanceError, UnsupportedFeatureError
from lance_core.index.segments import OpenSegment
from lance_core.index.text.old_partition import TERMS_FILE, OldPartition, old_parameters
from lance_core.index.text.parameters import TextParameters, parse_parameters
from lance_core.index.text.partition import Partition, reading

METADATA_FILE = "metadata.lance"
_MOST_PARTITIONS = 1 << 16
_TERM_FORMATS = ("arrow", "fst")


class TextSegment:
    """One segment of a full text index; thread-safe.

    Attributes:
        parameters: How the index divides texts into terms.
        partitions: Its partitions.
        deleted_fragments: Fragments whose rows are left out, although documents of them may be there.
    """

    def __init__(self, segment: OpenSegment) -> None:
        """Read what the segment says about itself.

        Raises:
            UnsupportedFeatureError: The index has a tokenizer that is not supported.
            LanceError: Another error of `OpenSegment.open_file`.
        """
        self.parameters: TextParameters
        self.partitions: tuple[Partition, ...]
        self.deleted_fragments = pyroaring.BitMap()
        if not segment.has_file(METADATA_FILE):
            terms = segment.open_file(TERMS_FILE)
            with reading(terms.name):
                self.parameters = old_parameters(terms.metadata)
            self.partitions = (OldPartition(segment),)
            return
        file = segment.open_file(METADATA_FILE)
        metadata = file.metadata
        with reading(file.name):
            numbers = json.loads(metadata.get("partitions", b"null"))
            if not isinstance(numbers, list) or len(numbers) > _MOST_PARTITIONS:
                raise ValueError(f"partitions {numbers!r}")
            term_format = metadata.get("token_set_format", b"arrow").decode()
            if term_format not in _TERM_FORMATS:
                raise UnsupportedFeatureError("terms of a full text index", found=term_format)
            try:
                self.parameters = parse_parameters(metadata.get("params", b"null"))
            except UnsupportedFeatureError:
                raise
            except LanceError as error:
                raise ValueError(str(error)) from None
            self.partitions = tuple(
                Partition(segment, _number(number), term_format, self.parameters.block_size)
                for number in numbers
            )
            if "deleted_fragments" in file.arrow_schema.names:
                for data in file.read(0, file.num_rows, ["deleted_fragments"]).column(0).to_pylist():
                    self.deleted_fragments |= _bitmap(data)


def _number(value: object) -> int:
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"partition {value!r}")
    return value


def _bitmap(data: bytes) -> pyroaring.BitMap:
    try:
        return pyroaring.BitMap.deserialize(data)
    except IndexError as error:
        raise ValueError(str(error)) from None


def open_text_segment(segment: OpenSegment) -> TextSegment:
    """Return a segment of a full text index, from the cache if it is there; errors are those of
    `TextSegment`.
    """
    return segment.kept("text", lambda: TextSegment(segment), lambda text: 1024 * (1 + len(text.partitions)))
