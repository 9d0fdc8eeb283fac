"""Table of the page layouts: opens a page with the class that reads its layout."""

from collections.abc import Callable
from functools import lru_cache, partial

from google.protobuf.message import DecodeError

from lance_core.encodings.file_pages import FilePages
from lance_core.encodings.v2_1.layouts.blob import BlobPage
from lance_core.encodings.v2_1.layouts.constant import ConstantPage
from lance_core.encodings.v2_1.layouts.fullzip import FullZipPage
from lance_core.encodings.v2_1.layouts.miniblock import MiniBlockCoding, MiniBlockPage
from lance_core.encodings.v2_1.layouts.page import LeafSlice, LeafType, Page, PageDescription
from lance_core.errors import UnsupportedFeatureError
from lance_core.kernels import CorruptData
from lance_core.proto import encodings_v2_1_pb2 as proto

PAGE_LAYOUT = "lance.encodings21.PageLayout"


def open_page(metadata: PageDescription, leaf: LeafType) -> Page:
    """Return the reader of a page of a 2.1 or 2.2 file. Reads no page data.

    Raises:
        UnsupportedFeatureError: a layout or encoding that is not supported; the message names it.
        CorruptData: the description contradicts itself or the column.
    """
    if metadata.encoding_type != PAGE_LAYOUT:
        raise UnsupportedFeatureError(f"page description {metadata.encoding_type!r}")
    return _opener(metadata.encoding, leaf)(metadata)


def decode_file_pages(
    kind: int, layout: bytes, leaf: LeafType, pages: FilePages, most_bytes: int
) -> LeafSlice:
    """Decode pages of several files as one page.

    Args:
        kind: The number of the field of `PageLayout` that describes the pages.
        layout: The message in this field, without the counts of single pages.

    Raises:
        UnsupportedFeatureError: the pages have to be decoded one by one.
        CorruptData: a page contradicts the format.
        TooManyBytes: the estimated size of the decoded values is above `most_bytes`.
    """
    decode = _OF_FILES.get(kind)
    if decode is None:
        raise UnsupportedFeatureError(f"page layout {kind} of several files")
    return decode(layout, leaf, pages, most_bytes)


_OF_FILES: dict[int, Callable[[bytes, LeafType, FilePages, int], LeafSlice]] = {
    proto.PageLayout.MINI_BLOCK_LAYOUT_FIELD_NUMBER: MiniBlockPage.decode_files,
    proto.PageLayout.CONSTANT_LAYOUT_FIELD_NUMBER: ConstantPage.decode_files,
    proto.PageLayout.FULL_ZIP_LAYOUT_FIELD_NUMBER: FullZipPage.decode_files,
}


@lru_cache(maxsize=512)
def _opener(description: bytes, leaf: LeafType) -> Callable[[PageDescription], Page]:
    """Return a function that opens pages with this description. The description is parsed once for many
    pages.
    """
    try:
        layout = proto.PageLayout.FromString(description)
    except DecodeError:
        raise CorruptData("the page's description cannot be parsed") from None
    if layout.WhichOneof("layout") == "mini_block_layout":
        return partial(MiniBlockPage, MiniBlockCoding.parse(layout.mini_block_layout, leaf), leaf)
    return lambda metadata: _open_layout(layout, metadata, leaf)


def _open_layout(layout: proto.PageLayout, metadata: PageDescription, leaf: LeafType) -> Page:
    kind = layout.WhichOneof("layout")
    if kind == "mini_block_layout":
        return MiniBlockPage(MiniBlockCoding.parse(layout.mini_block_layout, leaf), leaf, metadata)
    if kind == "full_zip_layout":
        return FullZipPage(layout.full_zip_layout, metadata, leaf)
    if kind == "constant_layout":
        return ConstantPage(layout.constant_layout, metadata, leaf)
    if kind == "blob_layout" and layout.blob_layout.inner_layout.WhichOneof("layout") != "blob_layout":
        return BlobPage(layout.blob_layout, metadata, leaf, _open_layout)
    raise UnsupportedFeatureError(f"page layout {kind or 'unknown'!r}")
