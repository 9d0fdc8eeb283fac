"""The options that `serve` and `config` have in common: every setting of the server."""

import os
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from flight_server.cli.added_options import add_options
from flight_server.security.transport import check_transport
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError

Arguments = Mapping[str, str | None]
"""Settings as texts by name, None where one is not given."""

_SEPARATORS = {"advertise": ",", "peers": ",", "allow_base": os.pathsep}
"""Between the values of an option that may be repeated, as in its environment variable."""


def _text(help_: str) -> Any:
    return Annotated[str | None, typer.Option(help=help_)]


def _texts(help_: str) -> Any:
    return Annotated[list[str] | None, typer.Option(help=f"{help_}; repeatable.")]


def _switch(flag: str, help_: str) -> Any:
    return Annotated[bool | None, typer.Option(flag, help=help_)]


_OPTIONS: Mapping[str, Any] = {
    "settings": _text("TOML file with settings; options and environment variables come before it."),
    "host": _text("Address to listen on."),
    "port": _text("Port; 0 takes any free one."),
    "http_port": _text("Port for HTTP: /healthz, /readyz, /metrics; 0 takes any free one."),
    "health_port": _text("Port of the gRPC health service, in plain text; 0 takes any free one."),
    "http_host": _text("Address that both of these ports listen on; the one of --host if not given."),
    "trace_endpoint": _text("URL of an OpenTelemetry collector for traces, such as http://collector:4318."),
    "advertise": _texts("Location to give to clients, such as grpc://host:8815"),
    "peers": _texts("Location of another server of the root, such as grpc://other:8815"),
    "peer_check_interval": _text("Seconds between two checks whether a peer is ready."),
    "peer_ca": _text("Authorities, PEM, that certificates of peers are checked with."),
    "workers": _text("Server processes behind the port."),
    "worker_port": _text("Port of the first worker, the others follow; 0 takes any free ones."),
    "memory_limit": _text("Memory for read-ahead and caches of all streams, such as 256MiB."),
    "max_streams": _text("Streams that may run at the same time."),
    "max_puts": _text("Uploads that may run at the same time."),
    "max_caller_streams": _text("Streams of one subject, or of one host if nobody is asked."),
    "max_caller_puts": _text("Uploads of one subject, or of one host if nobody is asked."),
    "max_caller_bytes_per_second": _text("Bytes of rows per second of one such caller, such as 100MB."),
    "max_put_bytes": _text("Decoded bytes that one upload may hold, such as 100GiB."),
    "max_put_seconds": _text("Seconds that one upload may take."),
    "stage_expiry": _text("Seconds after which staged writes that nobody committed are removed."),
    "max_batch_bytes": _text("Decoded bytes of one uploaded batch, such as 256MiB."),
    "max_search_rows": _text("Rows that one search may gather: k times refine_factor times queries."),
    "allow_unfinished_append": _switch(
        "--allow-unfinished-append",
        "Commit appends of clients that cannot send the finish message; a client that dies then leaves what "
        "it sent so far.",
    ),
    "verify_checksums": _switch(
        "--verify-checksums",
        "Hold the pages that scans read against their checksums, in files that have them.",
    ),
    "insecure": _switch(
        "--insecure",
        "Listen beyond loopback even without TLS or authentication: everybody may do everything.",
    ),
    "tls_cert": _text(
        "Certificate chain of the server, PEM; replaced while the server runs, it is read again."
    ),
    "tls_key": _text("Private key of the certificate, PEM."),
    "tls_client_ca": _text("Authorities, PEM: every client needs a certificate that one of them signed."),
    "accounts_file": _text("TOML file of subjects with hashes of tokens and passwords; see `token hash`."),
    "jwt_key_file": _text("Keys of JSON Web Tokens: a JWK set or a public key in PEM; see `token make-key`."),
    "jwt_issuer": _text("Issuer that JSON Web Tokens must name."),
    "jwt_audience": _text("Audience that JSON Web Tokens must name."),
    "jwt_roles_claim": _text("Claim of JSON Web Tokens with the roles."),
    "jwt_leeway": _text("Seconds by which the clock of an issuer may differ, at most 60."),
    "session_lifetime": _text("Seconds until the token that answers a password expires."),
    "audit_log": _text("File for one JSON line per call that changes something or is refused; - is stderr."),
    "grant": _text("Rights to datasets as a JSON list; the settings file has them as tables [[grant]]."),
    "signing_key_file": Annotated[
        str | None,
        typer.Option(
            "--signing-key-file",
            "--ticket-key-file",
            help="File with the key that signs tickets; the same on every server of the root.",
        ),
    ],
    "ticket_lifetime": _text("Seconds until a ticket expires."),
    "allow_base": _texts("Directory outside ROOT that tables may have files in (base paths)"),
    "cache_dir": _text("Directory that keeps statistics of data files for the next server."),
    "cache_dir_limit": _text("Most bytes in it, such as 256MiB."),
    "storage_options_file": _text(
        "JSON file with credentials and settings of the object store that ROOT is in."
    ),
    "drain_grace": _text("Seconds for running streams after a stop signal."),
    "log_level": _text("debug, info, warning or error."),
    "log_format": _text("Form of the lines of the log: text or json."),
}


def with_settings(verb: Callable[..., None]) -> Callable[..., None]:
    """Return a command of `verb`: its parameter `given`, of type `Arguments`, becomes one option per
    setting.
    """

    def command(**values: Any) -> None:
        given = {name: _as_text(name, values.pop(name)) for name in _OPTIONS}
        verb(given=given, **values)

    return add_options(command, verb, _OPTIONS, without="given")


def resolve(root: str, given: Arguments) -> Settings:
    """Return the settings of a server on `root`; what cannot be used is wrong usage."""
    try:
        settings = Settings.resolve(root, given)
        check_transport(settings)
    except InvalidInputError as error:
        raise typer.BadParameter(str(error)) from None
    return settings


def _as_text(name: str, value: Any) -> str | None:
    if isinstance(value, list):
        return _SEPARATORS[name].join(value) or None
    if isinstance(value, bool):
        return "true" if value else None
    return None if value is None else str(value)
