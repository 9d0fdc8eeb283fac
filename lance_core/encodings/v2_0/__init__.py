"""Array encodings of 2.0 files. Source: docs/format.md, "2.0".

registry (a table) -> flat, binary, nullable, ...: the encodings, with the base class in encoding.
list, struct, column: pages and columns that are no values. describe: encodings in words.
end_offsets, decompressed_buffer: parts that encodings share.
file_pages: pages of many small files, which are decoded as one page.
range_requests: how encodings request the bytes of a file.
"""
