"""Tickets of one server: signed before they are sent, and checked when they are redeemed.

Without Flight types.
"""

import hmac
import time
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Self

from flight_server.requests.tickets import CancelledTickets, Ticket, decode_ticket, encode_ticket
from lance_core.errors import InvalidInputError


class Tickets:
    """Tickets of one subject, signed with a key that the server derives for the subject. Thread-safe.

    The signature of another subject's ticket does not fit, as that of a forged ticket does not.
    """

    def __init__(self, key: bytes, lifetime: float) -> None:
        """Sign tickets of callers without a subject with `key`; tickets expire after `lifetime` seconds."""
        self._server_key = self._key = key
        self._lifetime = lifetime
        self._cancelled = CancelledTickets()

    def of(self, subject: str) -> Self:
        """Return the tickets of a subject. Cancelled tickets are remembered together."""
        tickets = copy(self)
        tickets._key = hmac.digest(self._server_key, b"tickets of " + subject.encode(), "sha256")
        return tickets

    def expiry(self) -> int:
        """Return the time at which a ticket that is made now expires, in seconds since the epoch."""
        return int(time.time() + self._lifetime)

    def sign(self, ticket: Ticket) -> bytes:
        """Return the signed bytes; errors are those of `encode_ticket`."""
        return encode_ticket(ticket, self._key)

    def redeem(self, data: bytes) -> Ticket:
        """Return the ticket in signed bytes.

        Raises:
            InvalidInputError: the bytes were not signed with this key, or the ticket has expired or was
                cancelled.
        """
        ticket = decode_ticket(data, self._key, time.time())
        if data in self._cancelled:
            raise InvalidInputError("the ticket was cancelled; plan the scan again")
        return ticket

    def renew(self, ticket: Ticket) -> tuple[bytes, int]:
        """Return a ticket for the same rows that expires later, and when: seconds since the epoch."""
        renewed = replace(ticket, expires=self.expiry())
        return self.sign(renewed), renewed.expires

    def cancel(self, tickets: Sequence[bytes]) -> bool:
        """Refuse these tickets from now on.

        Return False, and cancel none, if there are too many cancelled tickets.
        """
        now = time.time()
        return self._cancelled.add({data: decode_ticket(data, self._key, now) for data in tickets}, now)
