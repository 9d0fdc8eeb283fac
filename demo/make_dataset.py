"""Turn the tz database into the demo dataset ``demo/data/timezones.lance``.

The script ran once with the pinned reference writer. Its result is committed, so the demo needs neither this
script nor pylance. To run it again: ``rm -r demo/data && .venv/bin/python demo/make_dataset.py``.
The source, its version and its terms are in ``demo/PROVENANCE.md``.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

TARGET = Path(__file__).parent / "data" / "timezones.lance"
ROWS_PER_FRAGMENT = 150
VECTOR_YEARS = range(1970, 2034)
LAST_TRANSITION = int(datetime(2038, 1, 1, tzinfo=UTC).timestamp())

SCHEMA = pa.schema(
    [
        pa.field("name", pa.string(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        pa.field("alias_of", pa.string()),
        pa.field("countries", pa.list_(pa.struct([("code", pa.string()), ("name", pa.string())]))),
        pa.field("location", pa.struct([("latitude", pa.float64()), ("longitude", pa.float64())])),
        pa.field("comment", pa.string()),
        pa.field(
            "transitions",
            pa.list_(
                pa.struct(
                    [
                        ("at", pa.timestamp("s", tz="UTC")),
                        ("utc_offset_s", pa.int32()),
                        ("daylight_saving", pa.bool_()),
                        ("abbreviation", pa.string()),
                    ]
                )
            ),
        ),
        pa.field("offsets_h", pa.list_(pa.float32(), 2 * len(VECTOR_YEARS)), nullable=False),
    ]
)


@dataclass(frozen=True)
class LocalTime:
    """One kind of local time of a zone: seconds east of UTC, daylight saving, abbreviation."""

    utc_offset_s: int
    daylight_saving: bool
    abbreviation: str


@dataclass(frozen=True)
class Clock:
    """The history of a zone: ``kinds[i]`` holds from ``instants[i]`` (Unix seconds) on, ``first`` before."""

    first: LocalTime
    instants: tuple[int, ...]
    kinds: tuple[LocalTime, ...]

    def at(self, instant: int) -> LocalTime:
        """Return the local time in force at a Unix second."""
        index = bisect_right(self.instants, instant)
        return self.kinds[index - 1] if index else self.first


def read_clock(tzif: bytes) -> Clock:
    """Parse a TZif file (RFC 9636): skip the 32-bit block, read the 64-bit one."""
    header = struct.Struct(">4s1s15x6I")
    _, _, isut, isstd, leaps, times, types, chars = header.unpack_from(tzif)
    second = header.size + times * 5 + types * 6 + chars + leaps * 8 + isstd + isut
    magic, _, _, _, leaps, times, types, chars = header.unpack_from(tzif, second)
    assert magic == b"TZif", magic
    at = second + header.size
    instants = struct.unpack_from(f">{times}q", tzif, at)
    kind_of = tzif[at + 8 * times : at + 9 * times]
    at += 9 * times
    letters = tzif[at + 6 * types : at + 6 * types + chars]
    kinds = []
    for offset, daylight, start in struct.iter_unpack(">iBB", tzif[at : at + 6 * types]):
        kinds.append(LocalTime(offset, bool(daylight), letters[start : letters.index(0, start)].decode()))
    return Clock(kinds[0], instants, tuple(kinds[index] for index in kind_of))


def table_rows(path: Traversable) -> Iterator[list[str]]:
    """Yield the tab-separated columns of each line of a tz ``.tab`` file, without comments."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split("\t")


def degrees(text: str) -> float:
    """Return decimal degrees of ISO 6709 text: ``+DDMM``, ``+DDDMMSS`` and so on."""
    sign = -1 if text[0] == "-" else 1
    digits = text[1:]
    width = 2 if len(digits) in (4, 6) else 3
    parts = [digits[:width], digits[width : width + 2], digits[width + 2 :] or "0"]
    return round(sign * sum(int(part) / 60**power for power, part in enumerate(parts)), 4)


def parse_location(text: str) -> dict[str, float]:
    """Return latitude and longitude of an ISO 6709 position."""
    split = max(text.rfind("+"), text.rfind("-"))
    return {"latitude": degrees(text[:split]), "longitude": degrees(text[split:])}


def build_table() -> pa.Table:
    """Return one row per zone name of the tz database, in the order of the names."""
    zoneinfo = files("tzdata") / "zoneinfo"
    country_names = dict(table_rows(zoneinfo / "iso3166.tab"))
    places: dict[str, dict[str, Any]] = {}
    # zone1970.tab goes first: it names every country of a zone, zone.tab only one.
    for source in ("zone1970.tab", "zone.tab"):
        for codes, position, name, *comment in table_rows(zoneinfo / source):
            places.setdefault(
                name,
                {
                    "countries": [{"code": code, "name": country_names[code]} for code in codes.split(",")],
                    "location": parse_location(position),
                    "comment": comment[0] if comment else None,
                },
            )
    compact = (zoneinfo / "tzdata.zi").read_text(encoding="utf-8").splitlines()
    links = dict(reversed(line.split()[1:3]) for line in compact if line.startswith("L "))
    half_years = [
        int(datetime(year, month, 1, 12, tzinfo=UTC).timestamp()) for year in VECTOR_YEARS for month in (1, 7)
    ]

    rows = []
    for name in sorted((files("tzdata") / "zones").read_text(encoding="utf-8").split()):
        clock = read_clock(zoneinfo.joinpath(*name.split("/")).read_bytes())
        rows.append(
            {
                "name": name,
                "region": name.split("/")[0] if "/" in name else "(none)",
                "alias_of": links.get(name),
                "transitions": [
                    {
                        "at": instant,
                        "utc_offset_s": kind.utc_offset_s,
                        "daylight_saving": kind.daylight_saving,
                        "abbreviation": kind.abbreviation,
                    }
                    for instant, kind in zip(clock.instants, clock.kinds, strict=True)
                    if instant < LAST_TRANSITION
                ],
                "offsets_h": [clock.at(instant).utc_offset_s / 3600 for instant in half_years],
                **places.get(name, {"countries": [], "location": None, "comment": None}),
            }
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def main() -> None:
    """Write version 1 with every name, then version 2 without the names that are no place on Earth."""
    dataset = lance.write_dataset(
        build_table(), TARGET, data_storage_version="2.2", max_rows_per_file=ROWS_PER_FRAGMENT
    )
    dataset.delete("location IS NULL AND alias_of IS NULL")
    dataset = lance.dataset(TARGET)
    for fragment in dataset.get_fragments():
        print(fragment.fragment_id, fragment.count_rows(), fragment.num_deletions)
    print(dataset.version, dataset.count_rows(), dataset.schema)


if __name__ == "__main__":
    main()
