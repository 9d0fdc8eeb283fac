"""Where the bytes of a dataset come from."""

import re
from collections.abc import Mapping

from lance_core.errors import InvalidInputError, UnsupportedFeatureError
from lance_core.storage.base import Bytes, Entry, ReadableFile, Storage, WritableFile
from lance_core.storage.local import LocalStorage

__all__ = ["Bytes", "Entry", "LocalStorage", "ReadableFile", "Storage", "WritableFile", "storage_for"]

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


def storage_for(uri: str, options: Mapping[str, str] | None = None) -> Storage:
    """The storage of a dataset, by the scheme of its URI: a local path or a `file://` URL.

    `options` configure remote stores; local files have none.

    Raises:
        InvalidInputError: the URI is empty or holds a NUL.
        UnsupportedFeatureError: another scheme, named in the message.
    """
    if not uri or "\0" in uri:
        raise InvalidInputError("not a dataset URI", found=repr(uri))
    scheme = _SCHEME.match(uri)
    if scheme and scheme[1].lower() != "file":
        raise UnsupportedFeatureError("storage scheme", expected="a local path or file://", found=scheme[1])
    return LocalStorage(uri)
