"""Side by side with the reference library and with a plain Flight server on top of it; see README.md."""
