"""Rights: what callers may do with datasets, as the settings grant it. Free of Flight types."""
