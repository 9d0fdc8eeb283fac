"""Pages of 0.1 files, which have an encoding by their type. Source: docs/format.md, "0.1".

pages: positions of pages, and reads of them. offsets: offsets of strings and lists.
plain, var_binary, dictionary, nested: the readers, by type. describe: pages in words.
encoders, statistics: the writing side.
"""
