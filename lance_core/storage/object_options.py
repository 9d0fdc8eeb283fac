"""Clients of object stores, from a URL and `storage_options`.

The keys are those of the reference: the names of the object_store library, with or without the prefix of the
provider, in any case, and some names of Lance. As in the reference, other keys are ignored. Options that are
not given come from the environment, where names with the prefix of a provider and general names
(`ALLOW_HTTP`, `TIMEOUT`, ...) are used. Source: Lance documentation, "Object Store Configuration".
"""

import logging
import os
import re
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

from obstore.store import from_url

from lance_core.errors import InvalidInputError, StorageError, UnsupportedFeatureError
from lance_core.storage.aws_profile import profile_credentials

_CLIENT_KEYS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_url",
        "proxy_ca_certificate",
        "proxy_excludes",
        "read_timeout",
        "timeout",
        "user_agent",
    }
)
"""Options of the HTTP client, the same for every provider."""

_MAX_RETRIES = "client_max_retries"
_RETRY_TIMEOUT = "client_retry_timeout"
_DOWNLOAD_RETRIES = "download_retry_count"

_S3_ENDPOINT = "aws_endpoint_url_s3"

_ADDRESSES = (
    "aws_endpoint",
    "aws_endpoint_url_sts",
    "aws_metadata_endpoint",
    "azure_endpoint",
    "google_base_url",
)
"""Options that are URLs. The client does not check them, and panics at the first request if they are
malformed.
"""

_SYNONYMS = {"request_timeout": "timeout"}
"""Options whose names in the documentation differ from the library."""


def _keys(prefix: str, names: str) -> dict[str, str]:
    """Map each name, with and without the prefix, to the name with it."""
    return {spelling: prefix + name for name in names.split() for spelling in (name, prefix + name)}


_AWS = _keys(
    "aws_",
    "access_key_id secret_access_key session_token region endpoint endpoint_url_s3 "
    "virtual_hosted_style_request skip_signature unsigned_payload request_payer conditional_put "
    "checksum_algorithm server_side_encryption sse_kms_key_id sse_bucket_key_enabled "
    "sse_customer_key_base64 s3_express disable_tagging disable_bulk_delete metadata_endpoint "
    "imdsv1_fallback container_credentials_relative_uri container_credentials_full_uri "
    "container_authorization_token_file web_identity_token_file role_arn role_session_name endpoint_url_sts",
) | {
    "aws_default_region": "aws_region",
    "default_region": "aws_region",
    "aws_endpoint_url": "aws_endpoint",
    "endpoint_url": "aws_endpoint",
    "aws_token": "aws_session_token",
    "token": "aws_session_token",
}
_GOOGLE = _keys(
    "google_", "service_account service_account_key application_credentials base_url skip_signature"
) | {
    "google_service_account_path": "google_service_account",
    "service_account_path": "google_service_account",
    "application_credentials": "google_application_credentials",
    "google_bearer_token": "bearer_token",
    "google_storage_token": "bearer_token",
    "bearer_token": "bearer_token",
}
_AZURE = (
    _keys("azure_storage_", "account_name account_key client_id client_secret tenant_id sas_key token")
    | _keys("azure_", "endpoint msi_endpoint federated_token_file use_azure_cli object_id msi_resource_id")
    | _keys("azure_", "skip_signature authority_host credential_type disable_tagging")
    | _keys("azure_", "use_fabric_endpoint")
    | {
        "azure_storage_use_emulator": "azure_storage_use_emulator",
        "use_emulator": "azure_storage_use_emulator",
        "azure_storage_access_key": "azure_storage_account_key",
        "azure_storage_master_key": "azure_storage_account_key",
        "access_key": "azure_storage_account_key",
        "master_key": "azure_storage_account_key",
        "azure_storage_sas_token": "azure_storage_sas_key",
        "sas_token": "azure_storage_sas_key",
        "azure_storage_endpoint": "azure_endpoint",
        "azure_client_id": "azure_storage_client_id",
        "azure_client_secret": "azure_storage_client_secret",
        "azure_tenant_id": "azure_storage_tenant_id",
        "azure_storage_authority_id": "azure_storage_tenant_id",
        "azure_authority_id": "azure_storage_tenant_id",
        "bearer_token": "azure_storage_token",
    }
)

_PROVIDERS = {"s3": _AWS, "gs": _GOOGLE, "az": _AZURE, "abfss": _AZURE}
_PREFIXES = ("aws_", "google_", "azure_")

_log = logging.getLogger(__name__)


class Clients:
    """The clients of one bucket."""

    _process: int | None = None
    """Id of the process whose threads serve all clients."""

    def __init__(self, patient: Any, once: Any, download_retries: int) -> None:
        self._patient = patient
        self._once = once
        self.download_retries = download_retries
        """Largest number of repetitions of a request whose answer breaks off."""

    @property
    def patient(self) -> Any:
        """Client with automatic retries, for idempotent requests."""
        self._check_process()
        return self._patient

    @property
    def once(self) -> Any:
        """Client without automatic retries, for requests that are not idempotent."""
        self._check_process()
        return self._once

    @staticmethod
    def _check_process() -> None:
        if Clients._process is None:
            Clients._process = os.getpid()
        elif Clients._process != os.getpid():
            # The threads of the client do not survive a fork: a request would wait forever.
            raise StorageError("object stores cannot be used in a process forked from one that used them")


def connect(scheme: str, bucket: str, options: Mapping[str, str]) -> Clients:
    """Return the clients of a bucket. Clients with equal settings are shared, and so are their connections.

    Raises:
        InvalidInputError: an option has an invalid value. The message names options, never their values.
        UnsupportedFeatureError: the settings need a profile, which cannot be read.
    """
    settings = tuple(sorted(_resolve(scheme, options).items()))
    return _connect(scheme, bucket, settings, os.environ.get("AWS_PROFILE"))


@lru_cache(maxsize=64)
def _connect(scheme: str, bucket: str, settings: tuple[tuple[str, str], ...], profile: str | None) -> Clients:
    config = dict(settings)
    retries = _number(config, _MAX_RETRIES, 10)
    timeout = timedelta(seconds=_number(config, _RETRY_TIMEOUT, 180))
    download_retries = _number(config, _DOWNLOAD_RETRIES, 3)
    for key in _ADDRESSES:
        if key in config and not _is_address(config[key]):
            raise InvalidInputError(f"storage option {key} is not a URL, such as http://host:port")
    # Passed separately: the client accepts them in `config` too, but then cannot be shown in messages.
    client_options = {key: config.pop(key) for key in _CLIENT_KEYS & config.keys()}
    make: Any = from_url  # its overloads differ by provider
    arguments: dict[str, Any] = {"config": config, "client_options": client_options}

    def client(max_retries: int) -> Any:
        return make(
            f"{scheme}://{bucket}",
            retry_config={"max_retries": max_retries, "retry_timeout": timeout},
            **arguments,
        )

    try:
        if scheme == "s3" and (credentials := profile_credentials(config)) is not None:
            arguments["credential_provider"] = credentials
        return Clients(client(retries), client(0), download_retries)
    except UnsupportedFeatureError:
        raise
    except Exception as error:  # raised by the client or boto3
        given = ", ".join(key for key, _ in settings) or "none"
        reason = _without_values(str(error).partition("\n")[0], settings)
        raise InvalidInputError(
            f"no client for {scheme}://{bucket}: {reason} (options given: {given})"
        ) from None


def _resolve(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by the names of the client: from the options, else from the environment."""
    environment = {
        key.lower(): value
        for key, value in os.environ.items()
        if key.lower().startswith(_PREFIXES) or key.lower() in _CLIENT_KEYS
    }
    return _by_name(scheme, environment) | _by_name(scheme, options)


def _by_name(scheme: str, options: Mapping[str, str]) -> dict[str, str]:
    """Return the settings by the names that the client of the store has for them.

    If several spellings of one setting are given, the value under the client's name is used. Unknown settings
    are left out.
    """
    resolved: dict[str, str] = {}
    for key, value in sorted(options.items()):
        name = _name(key.lower(), _PROVIDERS[scheme])
        if name is None:
            _log.debug("storage option %r is not known for %s", key, scheme)
        elif key == name or (name not in resolved and name not in options):
            resolved[name] = str(value)
    if _S3_ENDPOINT in resolved:  # it has precedence, but the client does not know it
        resolved["aws_endpoint"] = resolved.pop(_S3_ENDPOINT)
    return resolved


def _name(key: str, names: Mapping[str, str]) -> str | None:
    key = _SYNONYMS.get(key, key)
    if key in _CLIENT_KEYS or key in (_MAX_RETRIES, _RETRY_TIMEOUT, _DOWNLOAD_RETRIES):
        return key
    if key.startswith(_PREFIXES) and key.partition("_")[2] in _CLIENT_KEYS:  # aws_allow_http
        return key.partition("_")[2]
    return names.get(key)


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError if the port is invalid
    except ValueError:
        return False
    is_plain = text.isascii() and text.isprintable() and " " not in text
    return is_plain and parts.scheme in ("http", "https") and bool(parts.hostname)


def _number(config: dict[str, str], key: str, default: int) -> int:
    text = config.pop(key, str(default))
    if not re.fullmatch(r"\d{1,6}", text):
        raise InvalidInputError(f"storage option {key} is not a number")
    return int(text)


def _without_values(text: str, settings: tuple[tuple[str, str], ...]) -> str:
    """Return the text without values of settings. (T46: a client repeats invalid values, which may be
    secrets.)
    """
    for _, value in settings:
        if len(value) >= 4:
            text = text.replace(value, "...")
    return text
