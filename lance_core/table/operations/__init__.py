"""What each operation of a transaction does to the manifest: one file per operation, each with `apply`.

Source: Lance table format, "What each operation does to the manifest"; docs/format.md.
"""
