"""Layouts of 2.1 and 2.2 pages: where the chunks or entries of a page lie, with their levels.

layout (a table) -> miniblock, fullzip, constant, blob: the layouts, with the base class in page.
levels: lists and nulls. dictionary: the items of dictionary pages.
direct: pages for the kernel that reads and decodes by itself.
joined_page: the page that pages of many small files make up, which are decoded as one page.
"""
