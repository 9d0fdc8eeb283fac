"""What each operation of a transaction does to the manifest: one file per operation, each with `apply`.

Source: docs/format.md, "Operations".
"""
