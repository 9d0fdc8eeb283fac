"""Application of each operation to the manifest: one file per operation, each with a function `apply`.

`context.py` has the state that the operations share. `fragments.py` and `schema.py` have the steps that
several operations share.

Source: docs/format.md, "Operations".
"""
