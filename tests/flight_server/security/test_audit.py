"""The audit log: one line for each call that changes something or is refused."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from pyarrow import flight

import lance_core
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError
from support.clients.actions import act, stage
from support.clients.raw_flight import action, call_on, path_descriptor
from support.servers.granted import ROWS, headers_of, token_of, write_settings
from support.servers.server import serving
from support.servers.tokens import Issuer


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_no_line_is_lost(tmp_path: Path) -> None:
    """T46: with many callers at a time, while the file is moved, from two processes; no line has a token."""
    root = tmp_path / "root"
    lance_core.write_dataset(ROWS, root / "shop" / "t.lance")
    settings = write_settings(tmp_path, Issuer.make("EdDSA", "one"))
    audit, moved = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    options = (
        "--settings",
        str(settings),
        "--audit-log",
        str(audit),
        "--log-level",
        "error",
        "--workers",
        "2",
    )
    with serving(root, tmp_path / "server.log", *options) as server:
        address = server.address

        def tag(number: int) -> None:
            subject = "writer" if number % 2 else "reader"
            body = json.dumps({"dataset": "shop/t", "tag": f"t{number}"}).encode()
            with grpc.insecure_channel(address) as channel:
                outcome = call_on(
                    channel, "DoAction", action("create_tag", body), headers=headers_of(subject)
                )
            assert outcome.code is (grpc.StatusCode.OK if number % 2 else grpc.StatusCode.NOT_FOUND)
            if number == 40:
                audit.rename(moved)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(tag, range(120)))
        lines = [*lines_of(moved), *lines_of(audit)]
        assert Counter(line["event"] for line in lines) == {"change": 60, "refused": 60}
        assert {line["worker"] for line in lines} <= {1, 2}
        made = next(line for line in lines if line["event"] == "change")
        expected = {"rpc": "DoAction", "action": "create_tag", "dataset": "shop/t", "subject": "writer"}
        assert made.items() >= (expected | {"how": "token", "version": 1}).items()
        assert made["peer"].startswith("ipv4:127.0.0.1")
        assert made["request_id"]
        refused = next(line for line in lines if line["event"] == "refused")
        assert refused.items() >= (expected | {"subject": "reader", "error": "DatasetNotFoundError"}).items()
        assert "that you may write" in refused["message"]

        with grpc.insecure_channel(address) as channel:
            bad = [("authorization", "Bearer lft_canary-of-nobody-0123")]
            for headers in (headers_of("reader"), bad):
                call_on(channel, "GetSchema", path_descriptor("shop", "t"), headers=headers)
        last = lines_of(audit)[-1]
        assert (
            last.items() >= {"event": "refused", "rpc": "GetSchema", "error": "NotAuthenticatedError"}.items()
        )
        assert len(lines_of(moved)) + len(lines_of(audit)) == 121
    text = moved.read_text() + audit.read_text()
    assert "canary" not in text
    assert all(token_of(subject) not in text for subject in ("writer", "reader"))


def test_staged_uploads_and_their_commits(tmp_path: Path) -> None:
    """Without authentication there is no subject, but the same lines; on stderr, between those of the log."""
    lance_core.write_dataset(ROWS, tmp_path / "t.lance")
    log = tmp_path / "server.log"
    with serving(tmp_path, log, "--audit-log", "-", "--log-level", "error") as server:
        with flight.connect(server.uri) as client:
            receipt = stage(client, ROWS, dataset="t")
            act(client, "commit", dataset="t", operation="append", staged=[receipt])
            act(client, "describe", dataset="t")
        told = lines_of(log)
    assert [line["event"] for line in told] == ["stage", "change"]
    assert [line["rows"] for line in told] == [len(ROWS), len(ROWS)]
    assert told[1]["version"] == 2
    assert "subject" not in told[0]


def test_a_file_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"audit_log.*not a file for the audit log"):
        Settings.resolve(str(tmp_path), {"audit_log": str(tmp_path / "missing" / "file")}, {})


def test_a_line_that_cannot_be_written(tmp_path: Path) -> None:
    """T40, T46: a full disk stops no call, and an event of the log tells which line is lost."""
    lance_core.write_dataset(ROWS, tmp_path / "root" / "t.lance")
    options = ("--audit-log", "/dev/full", "--log-format", "json")
    with serving(tmp_path / "root", tmp_path / "server.log", *options) as server:
        with server.client() as client:
            act(client, "create_tag", dataset="t", tag="gold")
            with pytest.raises(KeyError):
                act(client, "describe", dataset="missing")
        lines = lines_of(server.log_file)
    failed = [line for line in lines if line["event"] == "audit_failed"]
    assert [line["lost"] for line in failed] == ["change", "refused"]
    assert all("/dev/full cannot be written: No space left on device" in line["message"] for line in failed)
    told = {line["request_id"] for line in lines if line["event"] in ("change", "refused")}
    assert told == {line["request_id"] for line in failed}
