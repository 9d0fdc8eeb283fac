"""JSON Web Tokens of other programs, checked with keys from a file.

The key decides which algorithms it checks, never the token: no token without a signature, and no token that
takes a public key for a shared secret, passes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
from cryptography.x509 import load_pem_x509_certificate

from flight_server.errors import NotAuthenticatedError
from flight_server.requests.names import shown
from lance_core.errors import InvalidInputError

MINIMUM_SECRET_BYTES = 32
MINIMUM_RSA_BITS = 2048

_CURVES = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512", "secp256k1": "ES256K"}
_REQUIRED = ("exp", "iss", "aud", "sub")


@dataclass(frozen=True)
class VerifyingKey:
    """Key that checks signatures."""

    key: Any = field(repr=False)
    algorithms: tuple[str, ...]
    key_id: str | None = None


class WebTokens:
    """Checks of tokens with one set of keys."""

    def __init__(self, keys: Sequence[VerifyingKey], *, issuer: str, audience: str, leeway: float) -> None:
        self._keys = {each.key_id: each for each in keys}
        self._only = keys[0] if len(keys) == 1 else None
        self._issuer = issuer
        self._audience = audience
        self._leeway = leeway

    def claims_of(self, token: str) -> Mapping[str, Any]:
        """Return the claims of a token, with `sub` and `exp` among them.

        Raises:
            NotAuthenticatedError: the token is forged, expired, not valid yet, of another issuer or for
                another audience. The message names the reason and nothing of the token but its key id.
        """
        try:
            header = jwt.get_unverified_header(token)
            key = self._key(header.get("kid"))
            claims: dict[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                issuer=self._issuer,
                audience=self._audience,
                leeway=self._leeway,
                options={"require": list(_REQUIRED)},
            )
        except jwt.ExpiredSignatureError:
            raise NotAuthenticatedError("the token has expired") from None
        except jwt.PyJWTError as error:
            raise NotAuthenticatedError(f"the token is not valid ({type(error).__name__})") from None
        except (ValueError, TypeError, KeyError, RecursionError):  # claims of other types than the standard's
            raise NotAuthenticatedError("the token is not valid") from None
        if not claims["sub"]:
            raise NotAuthenticatedError("the token is not valid (it has no subject)")
        return claims

    def _key(self, key_id: Any) -> VerifyingKey:
        # A single key needs no id; but a token that names another key was signed with that one.
        key = (
            self._only if key_id is None or (self._only and not self._only.key_id) else self._keys.get(key_id)
        )
        if key is None:
            named = "names no key" if key_id is None else f"names the unknown key {shown(str(key_id))}"
            raise NotAuthenticatedError(f"the token {named}")
        return key


def load_keys(path: str) -> list[VerifyingKey]:
    """Read keys: a JWK set, one JWK, or a public key or certificate in PEM.

    Raises:
        InvalidInputError: the file cannot be read, or has no key that can check a signature, or a weak one.
    """
    try:
        data = Path(path).read_bytes()
        if data.lstrip().startswith(b"{"):
            return _from_json(json.loads(data))
        return [_verifying(_from_pem(data), None, None)]
    except InvalidInputError as error:
        raise InvalidInputError(f"the keys {path}: {error}") from None
    except OSError as error:
        raise InvalidInputError(f"the keys {path} cannot be read: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, jwt.PyJWTError, UnsupportedAlgorithm):
        raise InvalidInputError(f"the keys {path} are neither a JWK set nor a key in PEM") from None


def _from_json(content: Mapping[str, Any]) -> list[VerifyingKey]:
    entries = content.get("keys", [content])
    keys = [
        _verifying(jwt.PyJWK(entry).key, entry.get("kid"), entry.get("alg"))
        for entry in entries
        if entry.get("use", "sig") == "sig"
    ]
    ids = [key.key_id for key in keys]
    if not keys:
        raise InvalidInputError("expected a key for signatures, found none")
    if len(keys) > 1 and (None in ids or len(set(ids)) < len(ids)):
        raise InvalidInputError("several keys need a `kid` each, and not the same")
    return keys


def _from_pem(data: bytes) -> Any:
    if b"BEGIN CERTIFICATE" in data:
        return load_pem_x509_certificate(data).public_key()
    if b"PRIVATE KEY" in data:
        return load_pem_private_key(data, None)
    return load_pem_public_key(data)


def _verifying(key: Any, key_id: str | None, algorithm: str | None) -> VerifyingKey:
    public = key.public_key() if hasattr(key, "public_key") else key
    algorithms = _algorithms(public)
    if algorithm is not None:
        if algorithm not in algorithms:
            raise InvalidInputError(f"a key of another kind than its `alg` {algorithm!r}")
        algorithms = (algorithm,)
    return VerifyingKey(public, algorithms, key_id)


def _algorithms(key: Any) -> tuple[str, ...]:
    """Return the algorithms of a key. Raises InvalidInputError if the key is weak, or of no known kind."""
    if isinstance(key, bytes):
        if len(key) < MINIMUM_SECRET_BYTES:
            raise InvalidInputError(f"a secret of {len(key)} bytes; it needs {MINIMUM_SECRET_BYTES} or more")
        return ("HS256", "HS384", "HS512")
    if isinstance(key, rsa.RSAPublicKey):
        if key.key_size < MINIMUM_RSA_BITS:
            raise InvalidInputError(f"an RSA key of {key.key_size} bits; it needs {MINIMUM_RSA_BITS} or more")
        return ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
    if isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name in _CURVES:
        return (_CURVES[key.curve.name],)
    if isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey):
        return ("EdDSA",)
    raise InvalidInputError("a key that checks no signatures of tokens")
