"""Binary JSON of standard JSON text, straight from docs/format.md."""

from __future__ import annotations

import json
import struct
from typing import Any

_WIDTHS = "BHIQ"


def binary_json(text: str) -> bytes:
    """Return the binary JSON of a text without repeated keys."""
    value = json.loads(text)
    if isinstance(value, list | dict):
        return _container(value)
    kind, data = _member(value)
    return struct.pack(">II", 1 << 29, kind << 28 | len(data)) + data


def _container(value: list[Any] | dict[str, Any]) -> bytes:
    if isinstance(value, list):
        header, members = 4 << 29 | len(value), [_member(item) for item in value]
    else:
        keys = sorted(value, key=str.encode)
        header = 2 << 29 | len(keys)
        members = [*((1, key.encode()) for key in keys), *(_member(value[key]) for key in keys)]
    entries = [kind << 28 | len(data) for kind, data in members]
    return struct.pack(f">{1 + len(entries)}I", header, *entries) + b"".join(data for _, data in members)


def _member(value: Any) -> tuple[int, bytes]:
    if value is None or isinstance(value, bool):
        return {None: 0, False: 3, True: 4}[value], b""
    if isinstance(value, str):
        return 1, value.encode()
    if isinstance(value, int | float):
        return 2, _number(value)
    return 5, _container(value)


def _number(value: float) -> bytes:
    if isinstance(value, int) and -(2**63) <= value < 2**64:
        return b"\0" if value == 0 else _integer(value)
    return b"\x60" + struct.pack(">d", value)


def _integer(value: int) -> bytes:
    widths = _WIDTHS.lower() if value < 0 else _WIDTHS
    for width in widths:
        try:
            return (b"\x40" if value < 0 else b"\x50") + struct.pack(">" + width, value)
        except struct.error:
            continue
    raise AssertionError(value)
