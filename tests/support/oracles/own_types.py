"""Our classes of Arrow types, in a process in which the reference has registered its own."""

from __future__ import annotations

from collections.abc import Iterator

import lance.arrow as reference
import pyarrow as pa

from lance_core.api import arrow as ours


def own_types_registered() -> Iterator[None]:
    """Register our types until the generator goes on, then those of the reference again."""
    theirs = (
        reference.BFloat16Type(),
        reference.ImageURIType(),
        reference.EncodedImageType(),
        reference.FixedShapeImageTensorType(pa.uint8(), (0,)),
    )
    names = [kind.extension_name for kind in theirs]
    for name in names:
        pa.unregister_extension_type(name)
    ours.register_types()
    try:
        yield
    finally:
        for name in names:
            pa.unregister_extension_type(name)
        for kind in theirs:
            pa.register_extension_type(kind)
