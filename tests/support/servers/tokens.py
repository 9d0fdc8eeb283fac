"""Keys, tokens and accounts for servers that ask who calls."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from flight_server.security.accounts import hash_password, hash_token

ISSUER, AUDIENCE = "https://issuer.example", "lance"
TOKEN = "lft_canary-7f3a-static-token-of-ana"
OTHER_TOKEN = "lft_canary-91bc-static-token-of-ben"
PASSWORD = "canary-5c20 correct horse"


@dataclass(frozen=True)
class Issuer:
    """A key that signs web tokens."""

    algorithm: str
    key: Any
    key_id: str

    @staticmethod
    def make(algorithm: str, key_id: str) -> Issuer:
        make = {
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "RS256": lambda: rsa.generate_private_key(65537, 2048),
            "HS256": lambda: b"a shared secret of thirty-two bytes" + key_id.encode(),
        }[algorithm]
        return Issuer(algorithm, make(), key_id)

    def public(self) -> dict[str, Any]:
        """Return the JWK that checks the tokens."""
        algorithm = jwt.get_algorithm_by_name(self.algorithm)
        key = self.key if isinstance(self.key, bytes) else self.key.public_key()
        jwk = algorithm.to_jwk(key, as_dict=True)
        return {**jwk, "kid": self.key_id, "alg": self.algorithm, "use": "sig"}

    def token(self, subject: str = "ana", headers: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a token; a claim that is None is left out."""
        now = int(time.time())
        told = {"sub": subject, "iss": ISSUER, "aud": AUDIENCE, "iat": now, "exp": now + 600, **claims}
        given = {name: value for name, value in told.items() if value is not None}
        return jwt.encode(given, self.key, self.algorithm, {"kid": self.key_id, **(headers or {})})


def write_key_set(path: Path, *issuers: Issuer) -> None:
    path.write_text(json.dumps({"keys": [issuer.public() for issuer in issuers]}))


def write_accounts(path: Path) -> None:
    """Write the accounts of ana, who has a token and a password, and of ben, who has a token."""
    path.write_text(
        f'[[account]]\nsubject = "ana"\nroles = ["analyst"]\ntokens = ["{hash_token(TOKEN)}"]\n'
        f'password = "{hash_password(PASSWORD)}"\n\n'
        f'[[account]]\nsubject = "ben"\ntokens = ["{hash_token(OTHER_TOKEN)}"]\n'
    )
