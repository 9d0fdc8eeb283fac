"""Tickets and receipts belong to the subject that asked for them."""

from __future__ import annotations

from pathlib import Path

import lance
import pyarrow as pa
import pytest

from flight_server.requests.commands import parse_command
from flight_server.requests.names import DatasetReference
from flight_server.requests.write_command import parse_commit
from flight_server.security.identity import ANONYMOUS, Identity
from flight_server.service import Service
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError

SCAN = b'{"scan": {"dataset": "t"}}'


@pytest.fixture
def service(tmp_path: Path) -> Service:
    for value in range(2):
        lance.write_dataset(
            pa.table({"x": [value]}), tmp_path / "t.lance", mode="append" if value else "create"
        )
    return Service(Settings(str(tmp_path)))


def test_a_ticket_of_another_subject_is_a_forged_one(service: Service) -> None:
    """T12: the answer is the same, for redeeming, renewing and cancelling."""
    ana, ben = (service.on_behalf_of(Identity(name)) for name in ("ana", "ben"))
    (ticket, _) = ana.reads.plan(parse_command(SCAN)).tickets  # type: ignore[arg-type]
    assert ana.reads.redeem(ticket)
    forged = bytearray(ticket)
    forged[-2] ^= 1
    messages = set()
    for reads in (ben.reads, service.reads):
        for ask in (reads.redeem, reads.renew, lambda data, reads=reads: reads.cancel([data])):
            for data in (ticket, bytes(forged)):
                with pytest.raises(InvalidInputError) as caught:
                    ask(data)
                messages.add(str(caught.value))
    assert messages == {"the ticket was altered, or signed with another key"}
    assert ana.reads.cancel([ticket])
    with pytest.raises(InvalidInputError, match="cancelled"):
        ana.reads.redeem(ticket)


def test_a_receipt_of_another_subject_does_not_exist(service: Service) -> None:
    """T13: another subject neither commits nor removes it; its owner does."""
    ana, ben = (service.on_behalf_of(Identity(name)) for name in ("ana", "ben"))
    plan = ana.upkeep.plan_compaction(DatasetReference("t"), {})
    receipt, _ = ana.staged.execute(DatasetReference("t"), plan.tasks[0])
    body = f'{{"dataset": "t", "operation": "rewrite", "staged": ["{receipt}"]}}'.encode()
    invented = body.replace(receipt.encode(), b"0" * len(receipt))
    for stranger in (ben, service):
        for given in (body, invented):
            with pytest.raises(InvalidInputError, match="nothing is staged in this dataset"):
                stranger.staged.commit(parse_commit(given))
        with pytest.raises(InvalidInputError, match="nothing is staged"):
            stranger.upkeep.commit_compaction(DatasetReference("t"), receipts=[receipt])
        assert stranger.staged.abort(DatasetReference("t"), [receipt]) == 0
    assert ana.staged.commit(parse_commit(body)).version == 3


def test_staged_writes_of_every_subject_expire(tmp_path: Path, service: Service) -> None:
    ana = service.on_behalf_of(Identity("ana"))
    plan = ana.upkeep.plan_compaction(DatasetReference("t"), {})
    receipt, _ = ana.staged.execute(DatasetReference("t"), plan.tasks[0])
    Service(Settings(str(tmp_path), stage_expiry=0.0)).staged.expire()
    assert list((tmp_path / "t.lance" / "_staging").iterdir()) == []
    assert ana.staged.abort(DatasetReference("t"), [receipt]) == 0


def test_everybody_is_the_same_without_authentication(service: Service) -> None:
    assert service.on_behalf_of(ANONYMOUS) is service
