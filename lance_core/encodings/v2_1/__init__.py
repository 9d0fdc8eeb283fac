"""Pages of file versions 2.1 and 2.2. Source: docs/format.md, "Pages of 2.1 and 2.2".

layout (a table) -> miniblock, fullzip, constant, blob: the layouts, with the base class in page.
registry (a table) -> flat, variable, bitpacking, fsst, ...: the encodings, with the base class in encoding.
levels, level_coding: lists and nulls. dictionary: the items of dictionary pages.
chunks: the result of encoders of values. direct: pages for the kernel that reads and decodes by itself.
joined_page: the page that pages of many small files make up, which are decoded as one page.
"""
