"""One server that asks who calls, for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.guarded import Guarded, guard_options
from support.served import Root
from support.server import serving
from support.tokens import Issuer


@pytest.fixture(scope="session")
def guarded(root: Root, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    issuer = Issuer.make("EdDSA", "one")
    options = (*guard_options(folder, issuer), "--log-level", "debug")
    with serving(root.path, folder / "server.log", *options) as server:
        yield Guarded(server, issuer, options)
