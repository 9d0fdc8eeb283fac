"""Azurite, the emulator of Azure's blob storage, as a process of its own where it is installed.

`make emulators` installs it into `.emulators`. An `azurite-blob` on `PATH` is found, too. The variable
`LANCE_FLIGHT_AZURITE` names another one.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import os
import shutil
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from support.stores.store_process import store_process

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Known to everybody: every Azurite has it."""

_containers = itertools.count()


@dataclass(frozen=True)
class Azure:
    """A running server."""

    endpoint: str

    def options(self, endpoint: str | None = None) -> dict[str, str]:
        """`storage_options` for it, through another endpoint when one is given."""
        return {
            "account_name": ACCOUNT,
            "account_key": KEY,
            "azure_endpoint": f"{endpoint or self.endpoint}/{ACCOUNT}",
            "allow_http": "true",
        }

    def new_bucket(self) -> str:
        name = f"container-{next(_containers)}"
        path, date, version = f"/{ACCOUNT}/{name}", formatdate(usegmt=True), "2021-08-06"
        text = (
            "PUT"
            + "\n" * 12
            + f"x-ms-date:{date}\nx-ms-version:{version}\n/{ACCOUNT}{path}\nrestype:container"
        )
        signature = hmac.new(base64.b64decode(KEY), text.encode(), hashlib.sha256).digest()
        headers = {
            "x-ms-date": date,
            "x-ms-version": version,
            "Authorization": f"SharedKey {ACCOUNT}:{base64.b64encode(signature).decode()}",
            "Content-Length": "0",
        }
        request = urllib.request.Request(
            f"{self.endpoint}{path}?restype=container", method="PUT", headers=headers
        )
        urllib.request.urlopen(request).close()
        return name


def azurite() -> str | None:
    """Return the command, or None where none is installed."""
    installed = Path(__file__).parents[3].glob(".emulators/azurite-*/node_modules/.bin/azurite-blob")
    given = os.environ.get("LANCE_FLIGHT_AZURITE") or next(map(str, installed), None)
    return given or shutil.which("azurite-blob")


@contextmanager
def azure_server(command: str, log: Path) -> Iterator[Azure]:
    """Start the server on a free port and end it afterwards."""
    options = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
    address = ["--blobHost", "127.0.0.1", "--blobPort"]
    with store_process(lambda port: [command, *options, *address, port], log) as port:
        yield Azure(f"http://127.0.0.1:{port}")
