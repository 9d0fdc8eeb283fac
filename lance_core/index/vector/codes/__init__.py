"""Codes of vectors: what a vector index stores of each vector, and how it is compared with a query.

stored_codes.py   the common parts of all kinds of codes
plain.py          the vectors themselves
scalar.py         one byte per dimension
product.py        one number of a codeword per sub-vector
rotated.py        few bits per dimension of the rotated vector (RaBitQ)
"""
