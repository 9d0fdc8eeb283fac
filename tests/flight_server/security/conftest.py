"""One server that asks who calls, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.servers.guarded import Guarded, guard_options
from support.servers.served import Root
from support.servers.server import serving
from support.servers.tokens import Issuer


@pytest.fixture(scope="session")
def guarded(root: Root, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    issuer = Issuer.make("EdDSA", "one")
    options = (*guard_options(folder, issuer), "--log-level", "debug")
    with serving(root.path, folder / "server.log", *options) as server:
        yield Guarded(server, issuer, options)
