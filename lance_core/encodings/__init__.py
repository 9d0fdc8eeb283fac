"""How pages become Arrow arrays: one folder per file format generation, one file per encoding."""
