"""The key that a server makes: where it is, who shares it, and when it is refused."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from flight_server.security.signing_key import FILE_NAME, SigningKey, signing_key
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError


def key_of(root: Path | str) -> SigningKey:
    return signing_key(Settings(str(root)))


def test_servers_of_a_local_root_share_a_random_key(tmp_path: Path) -> None:
    """T12: nobody else reads it, and no two roots have the same."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = key_of(tmp_path / "a")
    assert first.origin == "root"
    assert key_of(tmp_path / "a") == first
    assert len(first.key) >= 32
    assert key_of(tmp_path / "b").key != first.key
    assert os.listdir(tmp_path / "a") == [FILE_NAME]
    assert stat.S_IMODE((tmp_path / "a" / FILE_NAME).stat().st_mode) == 0o600
    assert first.key.decode() not in repr(first)


def test_servers_that_start_together_agree(tmp_path: Path) -> None:
    found: list[SigningKey] = []
    started = threading.Barrier(8)

    def start() -> None:
        started.wait()
        found.append(key_of(tmp_path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({each.key for each in found}) == 1
    assert os.listdir(tmp_path) == [FILE_NAME]


def test_a_store_keeps_no_key() -> None:
    first, second = key_of("memory://a"), key_of("memory://a")
    assert first.origin == second.origin == "memory"
    assert first.key != second.key


def test_a_root_without_the_right_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    original = os.open
    monkeypatch.setattr(
        os,
        "open",
        lambda path, flags, *rest: (refuse if flags & os.O_CREAT else original)(path, flags, *rest),
    )
    assert key_of(tmp_path).origin == "memory"
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("damage", ["readable", "link", "empty"])
def test_a_key_that_others_know_is_refused(tmp_path: Path, damage: str) -> None:
    """T12, T13: a key that somebody else chose or can read would let them forge tickets."""
    path = tmp_path / FILE_NAME
    key_of(tmp_path)
    if damage == "readable":
        path.chmod(0o640)
    elif damage == "link":
        path.rename(tmp_path / "elsewhere")
        path.symlink_to("elsewhere")
    else:
        path.write_bytes(b"")
    with pytest.raises(InvalidInputError, match=FILE_NAME):
        key_of(tmp_path)


def test_a_configured_key_makes_no_file(tmp_path: Path) -> None:
    made = signing_key(Settings(str(tmp_path), signing_key=b"k" * 16))
    assert made == SigningKey(b"k" * 16, "settings")
    assert os.listdir(tmp_path) == []
