"""Data files of version 0.1 ("legacy")."""
