"""The functions that write rows.

datasets       `write_dataset`: a new dataset, or a new version
fragments      `write_fragments`: data files without a commit
arguments      the arguments that both functions share
"""
