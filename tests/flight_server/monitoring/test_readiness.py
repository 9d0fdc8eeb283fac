"""Readiness of a server whose storage hangs or fails, or whose memory is used up."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from flight_server.monitoring import readiness
from flight_server.monitoring.readiness import Readiness
from flight_server.service import Service
from flight_server.settings import Settings
from lance_core.errors import StorageError
from support.processes.waiting import wait_until


def test_a_storage_that_hangs_does_not_hang_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One thread waits for it, however many probes come; its late answer counts for the next probe."""
    monkeypatch.setattr(readiness, "_STORAGE_SECONDS", 0.05)
    monkeypatch.setattr(readiness, "_KEPT_SECONDS", 0.0)
    service = Service(Settings(str(tmp_path)))
    answers, asked = threading.Event(), []

    def hang() -> None:
        asked.append(None)
        assert answers.wait(120)

    monkeypatch.setattr(service, "probe_storage", hang)
    checked = Readiness(service)
    for _ in range(3):
        found = checked.checks()["storage"]
        assert not found.is_ok
        assert found.reason == "the storage does not answer within 0.05 seconds"
    wait_until(lambda: asked, "the thread has begun")
    assert len(asked) == 1
    answers.set()
    monkeypatch.setattr(readiness, "_STORAGE_SECONDS", 30.0)
    assert checked.checks()["storage"].is_ok


def test_an_error_of_the_storage_is_told_without_its_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T46: the text may hold paths, and the page needs no credentials."""
    service = Service(Settings(str(tmp_path)))

    def fail() -> None:
        raise StorageError("s3://secret-bucket: access denied")

    monkeypatch.setattr(service, "probe_storage", fail)
    found = Readiness(service).checks()["storage"]
    assert (found.is_ok, found.reason) == (False, "the root cannot be listed: StorageError")


def test_memory_that_is_used_up_is_no_readiness(tmp_path: Path) -> None:
    service = Service(Settings(str(tmp_path)))
    checked = Readiness(service)
    assert all(check.is_ok for check in checked.checks().values())
    with service._session.budget.require(service.memory().limit_bytes):
        checks = checked.checks()
        assert not checks["memory"].is_ok
        assert "used up" in checks["memory"].reason
    assert checked.checks()["memory"].is_ok
