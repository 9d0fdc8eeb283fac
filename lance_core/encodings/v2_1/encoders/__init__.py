"""Encoders of 2.1 and 2.2 pages, from Arrow arrays.

shredding, page_levels: an array -> leaves with levels, and the levels as a page stores them.
layout_choice -> miniblock, fullzip, constant, dictionary, blob: the layouts of pages.
fixed_width, variable_width, fixed_size_list, packed_struct, general: the values inside a layout.
field_options: the keys of field metadata. encoded_page: the result.
"""
