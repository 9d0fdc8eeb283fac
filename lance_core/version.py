"""The version of this package."""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("lance-flight")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+unknown"
