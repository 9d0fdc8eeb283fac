"""Arrow arrays to pages of 2.0 files: the forms that every release of the reference since 0.15 reads."""
