"""Configuration of the server: the sources of settings, and the values in their texts."""
