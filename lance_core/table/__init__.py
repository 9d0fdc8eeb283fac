"""Tables: versions, manifests, fragments, deletions and row ids, parsed from their bytes.

versions.py, snapshot.py, snapshot_cache.py   find, open and keep versions
manifest.py, feature_flags.py                 one version, and which tables may be read or written
manifest_repairs.py, manifest_checks.py       known damage of old manifests; the checks of `validate`
manifest_dictionaries.py, writer_version.py   dictionary values of 0.1 tables; writer and time
fragment.py, deletions.py                     fragments, their data files and deletion files
stored_file.py                                the manifest entry of a file that exists already
row_ids.py, row_versions.py                   stable row ids; the versions that created and changed rows
indices.py                                    descriptions of indices
transaction.py                                transactions: what a version changed
bases.py, refs.py                             other locations of files; tags and branches
manifest_store/                               commits on storages without an exclusive put
"""
