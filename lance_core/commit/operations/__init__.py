"""Effects of the operations of a transaction on the manifest: one file per operation, each with `apply`.

Source: docs/format.md, "Operations".
"""
