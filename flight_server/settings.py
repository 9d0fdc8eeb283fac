"""Every setting of the server, resolved once into one frozen object.

Order: option of the command line, then environment variable (`LANCE_FLIGHT_` and the upper-case name of the
field), then the settings file, then the default here.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any

from flight_server.configuration.sources import (
    SETTINGS_FILE,
    Given,
    Known,
    given_settings,
    settings_file,
    unknown_variables,
)
from flight_server.configuration.values import (
    parse_audit_log,
    parse_bytes,
    parse_cache_directory,
    parse_count,
    parse_directories,
    parse_file,
    parse_interval,
    parse_key,
    parse_leeway,
    parse_locations,
    parse_log_format,
    parse_log_level,
    parse_port,
    parse_seconds,
    parse_stage_expiry,
    parse_storage_options,
    parse_switch,
    parse_url,
    parse_workers,
)
from flight_server.rights.grants import Grant, parse_grants
from lance_core.errors import InvalidInputError

CLIENT_VARIABLES = frozenset(
    f"LANCE_FLIGHT_{name}"
    for name in (
        *("TOKEN", "TOKEN_FILE", "USERNAME", "PASSWORD", "TLS_ROOT_CERTS", "TLS_CLIENT_CERT"),
        *("TLS_CLIENT_KEY", "TLS_HOSTNAME", "TLS_SKIP_VERIFY"),
    )
)
"""Environment variables of the clients, which a server does not look at."""

_TOML_TYPES: Mapping[type, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int, str),
    float: (int, float),
    tuple: (list, str),
    type(None): (str,),
}
"""The types that the settings file may use, by the type of the default."""


def _setting(
    default: Any,
    parse: Callable[[str], Any],
    *,
    separator: str = "",
    is_path: bool = False,
    secret: str | None = None,
    toml_types: tuple[type, ...] | None = None,
    is_table: bool = False,
) -> Any:
    """Return a field of `Settings`. `secret` names the contents of the file of the setting `..._file`."""
    facts = {"separator": separator, "is_path": is_path, "file_holds": secret, "is_table": is_table}
    facts["toml_types"] = toml_types or _TOML_TYPES[type(default)]
    return field(default=default, repr=secret is None, metadata={"parse": parse, "facts": facts})


@dataclass(frozen=True)
class Settings:
    """Settings of one server process."""

    root: str
    """The served directory, resolved: absolute and without symbolic links. Or the URL of an object store."""
    host: str = _setting("127.0.0.1", str)
    port: int = _setting(8815, parse_port)
    """0 takes any free port."""
    http_port: int | None = _setting(None, parse_port, toml_types=(int, str))
    """Port for HTTP: health, readiness and metrics. 0 takes any free one; None: there is no such port."""
    health_port: int | None = _setting(None, parse_port, toml_types=(int, str))
    """Port of the gRPC health service, in plain text. 0 takes any free one; None: there is no such port."""
    http_host: str | None = _setting(None, str)
    """Address that both of these ports listen on; None: that of `host`."""
    trace_endpoint: str | None = _setting(None, parse_url)
    """URL of an OpenTelemetry collector that takes traces with OTLP over HTTP; None: there are no traces."""
    advertise: tuple[str, ...] = _setting((), parse_locations, separator=",")
    """Locations written into endpoints, comma separated in the environment; empty: the address the server
    is bound to.
    """
    peers: tuple[str, ...] = _setting((), parse_locations, separator=",")
    """Locations of the other servers of the root, which endpoints name while they are ready; this server's
    own location may be among them.
    """
    peer_check_interval: float = _setting(2.0, parse_interval)
    """Seconds between two checks whether the same peer is ready."""
    peer_ca: str | None = _setting(None, parse_file, is_path=True)
    """Certificates of authorities that the certificates of peers are checked with, PEM. None: those of the
    system.
    """
    workers: int = _setting(1, parse_workers)
    """Server processes behind the port."""
    worker_port: int = _setting(0, parse_port)
    """Port of the first worker, the others follow; 0: any free ports."""
    memory_limit: int = _setting(512 << 20, parse_bytes)
    """Bytes that all streams together may use for read-ahead and caches."""
    max_streams: int = _setting(256, parse_count)
    """Streams that may run at the same time; the next one is refused as retryable. The same number of lookups
    may run at the same time, and the same number of exchanges may be open.
    """
    max_puts: int = _setting(32, parse_count)
    """Uploads that may run at the same time; the next one is refused as retryable."""
    max_caller_streams: int | None = _setting(None, parse_count, toml_types=(int, str))
    """Streams of one caller: of one subject, or of one host if the server has no authentication. None: three
    quarters of `max_streams`.
    """
    max_caller_puts: int | None = _setting(None, parse_count, toml_types=(int, str))
    """Uploads of one caller. None: three quarters of `max_puts`."""
    max_caller_bytes_per_second: int | None = _setting(None, parse_bytes, toml_types=(int, str))
    """Bytes of rows that all streams of one caller get in a second, before compression. None: no limit."""
    max_put_bytes: int = _setting(1 << 40, parse_bytes)
    """Decoded bytes that one upload may hold."""
    max_put_seconds: float = _setting(24 * 3600.0, parse_seconds)
    """Seconds that one upload may take."""
    max_batch_bytes: int = _setting(256 << 20, parse_bytes)
    """Decoded bytes of one uploaded batch."""
    max_search_rows: int = _setting(1 << 20, parse_count)
    """Rows that one search of vectors may gather in memory: `k`, times `refine_factor` if it is given, or
    `ef` if that is more, for each query.
    """
    allow_unfinished_append: bool = _setting(False, parse_switch)
    """Commit appends of clients that cannot send the finish message."""
    verify_checksums: bool = _setting(False, parse_switch)
    """Compare the pages that scans read with their checksums, in files that have checksums."""
    stage_expiry: float = _setting(24 * 3600.0, parse_stage_expiry)
    """Seconds after which a staged write that was not committed is removed. At most 3 days: cleanups keep
    files of no version for 7 days, which must be at least twice as long.
    """
    insecure: bool = _setting(False, parse_switch)
    """Listen beyond loopback even without TLS or authentication."""
    tls_cert: str | None = _setting(None, parse_file, is_path=True)
    """Certificate chain of the server, PEM. With it the server speaks TLS only."""
    tls_key: str | None = _setting(None, parse_file, is_path=True)
    """Private key of the certificate, PEM."""
    tls_client_ca: str | None = _setting(None, parse_file, is_path=True)
    """Certificates of authorities, PEM. With it every client needs a certificate that one of them signed."""
    accounts_file: str | None = _setting(None, parse_file, is_path=True)
    """File of the subjects with their roles, and the hashes of their tokens and passwords."""
    jwt_key_file: str | None = _setting(None, parse_file, is_path=True)
    """Keys that JSON Web Tokens are checked with: a JWK set, or a public key in PEM."""
    jwt_issuer: str = _setting("lance-flight", str)
    """Value that the claim `iss` of a JSON Web Token must have."""
    jwt_audience: str = _setting("lance-flight", str)
    """Value that the claim `aud` of a JSON Web Token must have or contain."""
    jwt_roles_claim: str = _setting("roles", str)
    """Claim of a JSON Web Token with the roles, a list of texts or a text with spaces between them."""
    jwt_leeway: float = _setting(30.0, parse_leeway)
    """Seconds by which the clock of an issuer may differ."""
    session_lifetime: float = _setting(3600.0, parse_seconds)
    """Seconds after which the token that answers a password is refused."""
    grant: tuple[Grant, ...] = _setting((), parse_grants, toml_types=(list,), is_table=True)
    """Rights of subjects, roles and claims to datasets. Without grants every caller has every right. A JSON
    list in the environment; tables `[[grant]]` in the settings file.
    """
    signing_key: bytes | None = _setting(None, parse_key, secret="signing key")
    """Signs tickets and the tokens of sessions. None: the server makes a key, see `security.signing_key`. The
    setting `signing_key_file` names a file that holds the key.
    """
    ticket_lifetime: float = _setting(24 * 3600.0, parse_seconds)
    """Seconds after which a ticket is refused."""
    allow_base: tuple[str, ...] = _setting((), parse_directories, separator=os.pathsep, is_path=True)
    """Directories outside the root whose files tables may name as base paths, resolved; separated as in PATH
    in the environment.
    """
    cache_dir: str | None = _setting(None, parse_cache_directory, is_path=True)
    """Directory for the statistics of data files that filters gather. It is made if it is missing. Servers
    may share it, and its files may be deleted at any time. None: statistics are kept in memory only.
    """
    cache_dir_limit: int = _setting(256 << 20, parse_bytes)
    """About how many bytes the cache directory may hold."""
    storage_options: tuple[tuple[str, str], ...] = _setting(
        (), parse_storage_options, secret="storage options", toml_types=(dict,)
    )
    """Credentials and settings of the store of the root, a JSON object; see `lance_core.dataset`. What they
    leave out is taken from the store's own environment variables. The setting `storage_options_file` names a
    file that holds them.
    """
    drain_grace: float = _setting(30.0, parse_seconds)
    """Seconds that running streams get to end after a stop signal."""
    log_level: str = _setting("INFO", parse_log_level)
    log_format: str = _setting("text", parse_log_format)
    """Form of the lines of the log: text or json."""
    audit_log: str | None = _setting(None, parse_audit_log, is_path=True)
    """File that gets one JSON line for each call that changes something or is refused; `-` is stderr."""
    given_by: tuple[tuple[str, str | None], ...] = field(default=(), repr=False, compare=False)
    """The options that the settings were made from, to read them again."""

    @property
    def monitoring_host(self) -> str:
        """Address that the ports for HTTP and for the health service listen on, without brackets."""
        return (self.http_host or self.host).strip("[]")

    @classmethod
    def resolve(
        cls,
        root: str,
        arguments: Mapping[str, str | None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "Settings":
        """Return the settings from command-line texts (None: not given), environment, file and defaults.

        Raises InvalidInputError naming the setting that cannot be used, and where it comes from.
        """
        values: dict[str, Any] = {}
        for name, given in cls.given(arguments, environment).items():
            try:
                values[name] = _BY_NAME[name].metadata["parse"](given.text)
            except InvalidInputError as error:
                raise InvalidInputError(f"setting {name} ({given.origin}): {error}") from None
        return cls(root=_resolve_root(root), given_by=tuple((arguments or {}).items()), **values)

    @property
    def settings_file(self) -> str | None:
        """The path of the settings file."""
        return settings_file(dict(self.given_by))

    def read_again(self) -> "Settings":
        """Return the settings that a server with the same options would have now; errors as in `resolve`."""
        return Settings.resolve(self.root, dict(self.given_by))

    @staticmethod
    def given(
        arguments: Mapping[str, str | None] | None = None, environment: Mapping[str, str] | None = None
    ) -> dict[str, Given]:
        """Return the settings that are not left to their defaults, by name; errors as in `given_settings`."""
        return given_settings(_KNOWN, arguments, environment)

    @staticmethod
    def texts(arguments: Mapping[str, str | None]) -> dict[str, str]:
        """Return the arguments of `resolve` for another process, which does not look at the environment.

        Grants of the settings file stay there, so that the process can read them again.
        """
        given = Settings.given(arguments)
        texts = {name: each.text for name, each in given.items()}
        path = settings_file(arguments)
        if path is not None and "grant" in given and given["grant"].origin.endswith(f" in {path}"):
            del texts["grant"]
            texts[SETTINGS_FILE] = os.path.abspath(path)
        return texts

    @staticmethod
    def unknown_variables(environment: Mapping[str, str] | None = None) -> Iterator[str]:
        """Yield a sentence for each environment variable whose name looks like a setting, but is none."""
        return unknown_variables(_KNOWN, CLIENT_VARIABLES, environment)


_BY_NAME: Mapping[str, Field[Any]] = {each.name: each for each in fields(Settings) if each.metadata}
_KNOWN = {name: Known(name, **each.metadata["facts"]) for name, each in _BY_NAME.items()}


def _resolve_root(root: str) -> str:
    if "://" in root:
        # Late: most roots are directories, for which verbs that read settings do without the core.
        from lance_core.api.serving import is_object_store

        if is_object_store(root):
            return root.rstrip("/")
        raise InvalidInputError(f"not a local directory or an object store: {root!r}")
    resolved = os.path.realpath(root)
    if not os.path.isdir(resolved):
        raise InvalidInputError(f"the root to serve is not a directory: {root!r}")
    if os.path.isdir(os.path.join(resolved, "_versions")):
        raise InvalidInputError(f"the root to serve is a dataset, not a directory of datasets: {root!r}")
    return resolved
