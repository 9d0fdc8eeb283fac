"""Maintenance of tables: cleanup, clones, branches, tags and dropping.

cleanup.py, auto_cleanup.py   removing old versions and unused files, on request and after commits
file_roles.py                 which files a cleanup may remove, and which files versions refer to
clone.py, branches.py         tables and branches that begin with the files of another version
deep_clone.py                 tables that begin with copies of these files
tags.py                       tags, and the metadata of tags and branches
drop.py                       removing a table
"""
