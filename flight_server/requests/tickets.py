"""Tickets: everything a server needs to stream one endpoint, signed, so that any server of the root can
redeem it.

    bytes 0..3    "LFT1": what this is, and the version of the form
    bytes 4..35   HMAC-SHA256 over the magic and the payload
    bytes 36..    payload: one JSON object, see `_PAYLOAD_FIELDS`

A ticket names rows of one manifest, never a path. The key is that of the subject who asked for the ticket
(`reading.ticket_lifetime`). The payload is checked as a command is and its ranges are checked against the
manifest, since an operator may have chosen a key that others know.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from threading import Lock
from typing import Any

from flight_server.requests.commands import (
    COLUMNS,
    DEFAULT_BLOB_HANDLING,
    KEY_KINDS,
    KEYS,
    MAXIMUM_COMMAND_BYTES,
    OUTPUT_FIELDS,
    RANGES,
    VERSION,
    Columns,
    Ranges,
    RowKeys,
    aggregates,
)
from flight_server.requests.json_fields import (
    Checker,
    boolean,
    check_fields,
    integer,
    integers,
    list_of,
    one_of,
    parse_object,
    string,
)
from lance_core import ColumnOrdering
from lance_core.api.serving import SEARCHES, FragmentScan
from lance_core.errors import InvalidInputError

MAGIC = b"LFT1"
MAXIMUM_TICKET_BYTES = MAXIMUM_COMMAND_BYTES
MOST_CANCELLED_TICKETS = 1 << 17

_SCANS = "tasks"
"""Name of the fragment scans in the payload. Servers of earlier releases read and write it, too."""
_SIGNATURE_BYTES = hashlib.sha256().digest_size
_PAYLOAD_START = len(MAGIC) + _SIGNATURE_BYTES


@dataclass(frozen=True)
class Ticket:
    """One endpoint: row ranges of one dataset version and the form in which they are sent."""

    dataset: str
    version: int
    identity: str
    """Identity of the manifest. A dataset that was dropped and made again has other identities."""
    expires: int
    """Seconds since the epoch, from which on the ticket is refused."""
    fragment_scans: tuple[FragmentScan, ...]
    branch: str | None = None
    """None: the main branch."""
    keys: RowKeys | None = None
    """The rows of a take or of blobs, which have no fragment scans."""
    columns: Columns = None
    filter: str | None = None
    substrait_filter: bytes | None = None
    limit: int | None = None
    """Set only with a filter, an order or a search, like `offset`. Otherwise `fragment_scans` has the rows
    that limit and offset leave."""
    offset: int | None = None
    with_row_id: bool = False
    with_row_address: bool = False
    batch_rows: int | None = None
    batch_bytes: int | None = None
    compression: str = "none"
    verify_checksums: bool = False
    blob_handling: str = DEFAULT_BLOB_HANDLING
    nearest: Mapping[str, Any] | None = None
    full_text_query: Mapping[str, Any] | None = None
    hybrid: Mapping[str, Any] | None = None
    ranking: str | None = None
    """One of `SEARCHES`: the rows of this ranking of a hybrid search, which the client joins. None joins
    both.
    """
    search_filter: str | None = None
    index_segments: tuple[str, ...] | None = None
    prefilter: bool = False
    fast_search: bool = False
    use_scalar_index: bool = True
    column: str | None = None
    """Column of the blobs that `keys` name; None for rows."""
    ranges: Ranges | None = None
    """Range of each blob; None: whole blobs."""
    with_size: bool = False
    order_by: tuple[ColumnOrdering, ...] = ()
    aggregates: Mapping[str, str] | None = None
    """SQL by name, of an aggregation of all rows of the version; None for rows."""
    group_by: Columns = ()
    limits: str | None = None
    """Text for the limits of the right to read, from `View.limits`; None: no limits."""


_DEFAULTS = {each.name: each.default for each in fields(Ticket) if each.default is not MISSING}


def is_ticket(data: bytes) -> bool:
    """Return whether `data` claims to be a ticket; commands start with other bytes."""
    return data.startswith(MAGIC)


def encode_ticket(ticket: Ticket, key: bytes) -> bytes:
    """Return the signed bytes of `ticket`; raise InvalidInputError if they exceed `MAXIMUM_TICKET_BYTES`."""
    payload = {name: value for name, value in vars(ticket).items() if value != _DEFAULTS.get(name)}
    payload[_SCANS] = [[scan.fragment_id, scan.start, scan.end] for scan in payload.pop("fragment_scans")]
    if ticket.keys is not None:
        payload["keys"] = {ticket.keys.kind: ticket.keys.values}
    if ticket.order_by:
        payload["order_by"] = [
            {"column": each.column_name, "ascending": each.ascending, "nulls_first": each.nulls_first}
            for each in ticket.order_by
        ]
    if ticket.substrait_filter is not None:
        payload["substrait_filter"] = base64.b64encode(ticket.substrait_filter).decode()
    text = json.dumps(payload, separators=(",", ":")).encode()
    if _PAYLOAD_START + len(text) > MAXIMUM_TICKET_BYTES:
        raise InvalidInputError(
            f"{len(ticket.fragment_scans)} row ranges or {len(ticket.keys.values) if ticket.keys else 0} "
            "keys make too large a ticket; ask for more endpoints, or for fewer keys",
            expected=f"at most {MAXIMUM_TICKET_BYTES} bytes",
            found=_PAYLOAD_START + len(text),
        )
    return MAGIC + _signature(text, key) + text


def decode_ticket(data: bytes, key: bytes, now: float) -> Ticket:
    """Return the ticket in `data`.

    Args:
        data: Bytes that `encode_ticket` returned.
        key: The key that the ticket was signed with.
        now: Seconds since the epoch.

    Raises:
        InvalidInputError: the signature, the form or the expiry is wrong; the message says which.
    """
    if len(data) > MAXIMUM_TICKET_BYTES:
        raise InvalidInputError(f"ticket of {len(data)} bytes; at most {MAXIMUM_TICKET_BYTES}")
    if not is_ticket(data) or len(data) <= _PAYLOAD_START:
        raise InvalidInputError("not a ticket of this server")
    signature, payload = data[len(MAGIC) : _PAYLOAD_START], data[_PAYLOAD_START:]
    if not hmac.compare_digest(signature, _signature(payload, key)):
        raise InvalidInputError("the ticket was altered, or signed with another key")
    values = check_fields("ticket", parse_object(payload), _PAYLOAD_FIELDS, required=_REQUIRED_FIELDS)
    ticket = Ticket(fragment_scans=values.pop(_SCANS), **values)
    if now >= ticket.expires:
        raise InvalidInputError(
            f"the ticket expired {now - ticket.expires:.0f} seconds ago; plan the scan again"
        )
    return ticket


class CancelledTickets:
    """Set of the cancelled tickets, which the server refuses. Each is kept until it expires."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._expiries: dict[bytes, int] = {}

    def add(self, tickets: Mapping[bytes, Ticket], now: float) -> bool:
        """Cancel tickets, given by their bytes. Return False and cancel none if the set would have more than
        `MOST_CANCELLED_TICKETS`.
        """
        with self._lock:
            if len(self._expiries) + len(tickets) > MOST_CANCELLED_TICKETS:
                self._expiries = {key: end for key, end in self._expiries.items() if end > now}
            if len(self._expiries) + len(tickets) > MOST_CANCELLED_TICKETS:
                return False
            for data, ticket in tickets.items():
                self._expiries[data[len(MAGIC) : _PAYLOAD_START]] = ticket.expires
            return True

    def __contains__(self, data: bytes) -> bool:
        return data[len(MAGIC) : _PAYLOAD_START] in self._expiries


def _signature(payload: bytes, key: bytes) -> bytes:
    return hmac.digest(key, MAGIC + payload, "sha256")


def _fragment_scan(field: str, value: Any) -> FragmentScan:
    numbers = integers()(field, value)
    if len(numbers) != 3 or numbers[1] >= numbers[2]:
        raise InvalidInputError(f"{field}: expected a fragment, its first row and the row after its last")
    return FragmentScan(*numbers)


def _keys(field: str, value: Any) -> RowKeys:
    fields = check_fields(field, value, dict.fromkeys(KEY_KINDS, KEYS), required=())
    if len(fields) != 1:
        raise InvalidInputError(f"{field}: expected one of {', '.join(KEY_KINDS)}")
    return RowKeys(*next(iter(fields.items())))


_PAYLOAD_FIELDS: Mapping[str, Checker] = {
    "dataset": string,
    "version": VERSION,
    "identity": string,
    "expires": integer(),
    _SCANS: list_of(_fragment_scan),
    "branch": string,
    "keys": _keys,
    "column": string,
    "ranges": RANGES,
    "with_size": boolean,
    "limit": integer(),
    "offset": integer(),
    "limits": string,
    "aggregates": aggregates,
    "group_by": COLUMNS,
    "ranking": one_of(SEARCHES),
    **OUTPUT_FIELDS,
}
_REQUIRED_FIELDS = ("dataset", "version", "identity", "expires", _SCANS)
