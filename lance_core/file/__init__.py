"""Data files: containers, readers and writers, one folder per generation of the file format.

Any version: `data_file.py` and `column_readers.py` open and read, `writer.py` writes.
2.x container: `footer.py` and `metadata.py` read it, `joined_files.py` that of many small files together,
`container_writer.py` writes it.
Blobs: `blob_placement.py` chooses the file of a value, `side_files.py` writes the files beside a data file,
`external_blobs.py` says which files outside the dataset may hold values.
"""
