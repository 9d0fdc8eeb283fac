"""Pages of file versions 2.1 and 2.2. Source: docs/format.md, "Pages of 2.1 and 2.2".

layouts/: the layouts of pages, with their levels. encoders/: the writers of pages.
registry (a table) -> flat, variable, bitpacking, fsst, ...: the encodings, with the base class in encoding.
level_coding: the codings of levels. chunks: the result of encoders of values.
describe: layouts and encodings in words.
"""
