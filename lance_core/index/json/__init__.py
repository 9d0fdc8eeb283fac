"""JSON indices: indices of another kind on the values at one path inside JSON documents.

documents  columns of binary JSON
values     which value inside JSON a condition is about, and whether an index has it
details    the entry of an index in the manifest: the path, and the kind of its files
build      JSON and row keys -> files of a segment
"""
