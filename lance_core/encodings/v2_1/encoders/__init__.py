"""Arrow arrays to pages of 2.1 and 2.2 files.

shred      an array of a column -> its leaves: values, repetition and definition levels
structure  the levels of one page: which layers it needs, how they are numbered and stored
page       values and levels -> the layout that suits them
miniblock, fullzip, constant, dictionary, blob      the layouts
words, text, vectors, packed, general               the values inside them
options    what field metadata asks for
"""
