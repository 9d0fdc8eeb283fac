"""Options of the data source: from the texts that Spark hands over to typed values."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Literal, Self

import flight_client
from flight_client import ColumnOrdering, InvalidInputError, Snapshot, parse_orderings

OF_SPARK = frozenset(
    {"checkpointlocation", "queryname", "outputmode", "header", "inferschema"}
    | {"provider", "owner", "location", "comment", "external", "is_managed_location"}
)
"""Options that Spark adds, or that belong to another format: they mean nothing here. Those in the second line
belong to tables of Spark's catalog. Such tables have each of their options once more as `option.<name>`.
"""


def _text(text: str) -> str:
    return text


def _integer(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError
    return number


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _one_of(*choices: str) -> Callable[[str], str]:
    return {choice: choice for choice in choices}.__getitem__


def _starting(text: str) -> int | str:
    return "latest" if text.strip().lower() == "latest" else _positive(text)


def _list(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def parse_columns(text: str) -> tuple[str, ...] | dict[str, str]:
    """Return the columns that a text names: `a,b`, a JSON list of names, or a JSON object of SQL by name.

    Raises:
        InvalidInputError: the text has another form.
    """
    if not text.lstrip().startswith(("[", "{")):
        return _list(text)
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    values = parsed.values() if isinstance(parsed, dict) else parsed
    if parsed is None or not all(isinstance(value, str) for value in values):
        raise InvalidInputError(f"expected names with commas, or SQL by name in JSON, found {text!r}")
    return parsed if isinstance(parsed, dict) else tuple(parsed)


def _text_query(text: str) -> dict[str, Any]:
    return _object(text) if text.lstrip().startswith("{") else {"query": text}


def _search(text: str) -> dict[str, Any]:
    fields = _object(text)
    if "q" not in fields:
        raise ValueError
    return fields


def _aggregates(text: str) -> dict[str, str]:
    fields = _object(text)
    if not fields or not all(isinstance(sql, str) for sql in fields.values()):
        raise ValueError
    return fields


def _object(text: str) -> dict[str, Any]:
    fields = json.loads(text)
    if not isinstance(fields, dict):
        raise ValueError
    return fields


Use = Literal["reads", "streams that are read", "writes"]
_ALL: tuple[Use, ...] = ("reads", "streams that are read", "writes")
_READS, _STREAMS, _WRITES = _ALL[:1], _ALL[1:2], _ALL[2:]


def option(
    name: str,
    parse: Callable[[str], Any],
    expected: str,
    default: Any = None,
    *,
    uses: tuple[Use, ...] = _ALL,
    shown: bool = True,
) -> Any:
    """Return a field of `Options`: its name for users, the parser of its text, the expected form, and its
    uses.
    """
    told = {"option": name, "parse": parse, "expected": expected, "uses": uses}
    return field(default=default, repr=shown, metadata=told)


_OF_ROWS = frozenset(
    {"columns", "push_down_filters", "batch_size", "blob_handling", "nearest", "full_text_query", "hybrid"}
    | {"search_filter", "index_segments", "prefilter", "order_by", "limit", "compression"}
    | {"verify_checksums"}
)
"""Fields of `Options` for reads of rows, which say nothing about aggregates of them."""


@dataclass(frozen=True)
class Options:
    """Values of `.option(...)`. Can be pickled. The `repr` shows no token."""

    uri: tuple[str, ...] = option("uri", _list, "grpc://host:port, several with commas", ())
    """Addresses of the servers."""
    table: str = option("table", _text, "the name of a dataset", "")
    """Name of the dataset on the server; also the path of `load` and `save`."""
    version: int | None = option("version", _integer, "the number of a version", uses=_READS)
    tag: str | None = option("tag", _text, "the name of a tag", uses=_READS)
    branch: str | None = option("branch", _text, "the name of a branch")
    version_as_of: int | None = option("versionAsOf", _integer, "the number of a version", uses=_READS)
    """Other name of `version`, used by Spark's other formats."""
    timestamp_as_of: str | None = option("timestampAsOf", _text, "a time in ISO 8601", uses=_READS)
    """Time in ISO 8601; the last version before it."""
    columns: tuple[str, ...] | Mapping[str, str] | None = option(
        "columns", parse_columns, "names or SQL by name", uses=_READS + _STREAMS
    )
    """Names with commas, a JSON list of names, or a JSON object of SQL by name."""
    filter: str | None = option("filter", _text, "a condition in SQL", uses=_READS + _STREAMS)
    """Condition that the server evaluates; only rows that meet it."""
    push_down_filters: bool = option("pushDownFilters", _boolean, "true or false", False, uses=_READS)
    batch_size: int | None = option("batchSize", _positive, "rows, 1 or more", uses=_READS + _STREAMS)
    """Largest number of rows in a batch that is read."""
    verify_checksums: bool = option(
        "verifyChecksums", _boolean, "true or false", False, uses=_READS + _STREAMS
    )
    """Whether the server checks the pages that it reads against their checksums, whatever its settings say.
    """
    blob_handling: str | None = option(
        "blobHandling",
        _one_of("blobs_descriptions", "all_descriptions", "all_binary"),
        "blobs_descriptions, all_descriptions or all_binary",
        uses=_READS,
    )
    """Whether blobs are read as their descriptors, the default, or as their bytes (`all_binary`)."""
    nearest: Mapping[str, Any] | None = option(
        "nearest", _search, 'a JSON object such as {"q": [0.1, 0.2], "k": 10}', uses=_READS
    )
    """Search of the rows whose vectors are nearest to `q`: a JSON object with the arguments of
    `flight_client.RemoteDataset.scanner(nearest=...)`."""
    full_text_query: Mapping[str, Any] | None = option(
        "fullTextQuery",
        _text_query,
        'words, or a JSON object such as {"match": {"terms": "red fox"}}',
        uses=_READS,
    )
    """Search of the rows that contain words, the best first: words, or the argument of
    `flight_client.RemoteDataset.scanner(full_text_query=...)` as JSON."""
    hybrid: Mapping[str, Any] | None = option(
        "hybrid", _object, 'a JSON object such as {"method": "rrf"}, or {}', uses=_READS
    )
    """Ranking of the rows of both searches, the most relevant first: the argument of
    `flight_client.RemoteDataset.scanner(hybrid=...)` as JSON."""
    search_filter: str | None = option(
        "searchFilter", _one_of("vector", "text"), "vector or text", uses=_READS
    )
    """Search that is a filter of the other one, if both are given. The other one ranks the rows."""
    index_segments: tuple[str, ...] | None = option("indexSegments", _list, "uuids with commas", uses=_READS)
    """Segments of a vector index that find the rows of `nearest`; only rows that they cover are found."""
    prefilter: bool = option("prefilter", _boolean, "true or false", False, uses=_READS)
    """Whether a search finds only rows that meet `filter`."""
    order_by: tuple[ColumnOrdering, ...] = option(
        "orderBy",
        parse_orderings,
        "names with commas, each perhaps with DESC or NULLS FIRST",
        (),
        uses=_READS,
    )
    """Columns that the server sorts by. The result is one partition."""
    aggregates: Mapping[str, str] | None = option(
        "aggregates", _aggregates, 'a JSON object such as {"rows": "count(*)"}', uses=_READS
    )
    """Aggregates of the rows that meet `filter`, computed by the server: SQL by name as JSON. The frame has
    one row per group, in one partition."""
    group_by: tuple[str, ...] | Mapping[str, str] | None = option(
        "groupBy", parse_columns, "names or SQL by name", uses=_READS
    )
    """Columns that make the groups of `aggregates`, in the form of `columns`."""
    limit: int | None = option("limit", _integer, "a number of rows", uses=_READS)
    """Most rows, which the server leaves before Spark evaluates conditions of a query."""
    compression: str | None = option(
        "compression",
        _one_of("none", "lz4", "zstd", "auto"),
        "none, lz4, zstd or auto",
        uses=_READS + _STREAMS,
    )
    """Compression of rows on the wire; `auto` lets the server choose by the speed of the network."""
    token: str | None = option("token", _text, "a token", shown=False)
    token_file: str | None = option("tokenFile", _text, "a path")
    """Path of a file with the token. Every process reads its own, and reads it again when it changes."""
    username: str | None = option("username", _text, "a user name")
    password: str | None = option("password", _text, "a password", shown=False)
    tls_root_certs: str | None = option("tlsRootCerts", _text, "a path, or PEM", shown=False)
    """Certificates that servers are checked with."""
    tls_client_cert: str | None = option("tlsClientCert", _text, "a path, or PEM", shown=False)
    tls_client_key: str | None = option("tlsClientKey", _text, "a path, or PEM", shown=False)
    """Certificate and key of the client."""
    tls_hostname: str | None = option("tlsHostname", _text, "the name of a host")
    """Name that the certificate of a server must have, if it is not the name in the address."""
    tls_skip_verify: bool = option("tlsSkipVerify", _boolean, "true or false", False)
    """Whether every certificate of a server is accepted."""
    max_rows_per_file: int | None = option("maxRowsPerFile", _positive, "rows, 1 or more", uses=_WRITES)
    max_bytes_per_file: int | None = option("maxBytesPerFile", _positive, "bytes, 1 or more", uses=_WRITES)
    max_versions_per_trigger: int | None = option(
        "maxVersionsPerTrigger", _positive, "versions, 1 or more", uses=_STREAMS
    )
    starting_version: int | str | None = option(
        "startingVersion", _starting, "the number of a version, 1 or more, or latest", uses=_STREAMS
    )
    """First version whose changes a stream delivers; "latest" for the changes after the latest version."""
    on_changes: str = option(
        "onChanges", _one_of("fail", "ignore", "report"), "fail, ignore or report", "fail", uses=_STREAMS
    )
    """Action of a stream for updated and deleted rows."""
    app_id: str | None = option("app_id", _text, "a text", uses=_WRITES)
    """Name of the writing application. With the number of a batch, it makes each commit of a stream happen
    once.
    """
    create: bool = option("create", _boolean, "true or false", False, uses=_WRITES)
    """Whether an append creates a missing dataset."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        """Return the options that Spark hands over.

        Raises:
            InvalidInputError: an option is unknown, or its value is invalid; the server or the dataset is
                missing, or several versions are given.
        """
        known = {each.metadata["option"].lower(): each for each in fields(cls)}
        texts = {name.lower(): text for name, text in given.items()}
        # `load(path)` gives this option. Tables of a catalog have a path, too, and name their table besides.
        if path := texts.pop("path", None):
            texts.setdefault("table", path)
        values = {}
        for name, text in texts.items():
            if name in known:
                values[known[name].name] = _parsed(known[name].metadata, text)
            elif name not in OF_SPARK and not name.startswith("option."):
                near = get_close_matches(name, known, 1)
                hint = f", did you mean {known[near[0]].metadata['option']}?" if near else ""
                raise InvalidInputError(f"lance_flight has no option {name!r}{hint}")
        options = cls(**values)
        for name, value in (("uri", options.uri), ("table", options.table)):
            if not value:
                raise InvalidInputError(
                    f"option {name} is missing, expected {known[name].metadata['expected']}"
                )
        options._check_one("version", "tag", "versionAsOf", "timestampAsOf")
        options._check_one("token", "tokenFile", "username")
        options._check_aggregates()
        return options

    def check_use(self, use: Use) -> None:
        """Refuse options that have no effect on `use`, because their user expects an effect.

        Raises:
            InvalidInputError: such an option is given. The message names the option and its uses.
        """
        for each in fields(self):
            known = each.metadata
            if use not in known["uses"] and getattr(self, each.name) != each.default:
                raise InvalidInputError(
                    f"option {known['option']} is for {' and '.join(known['uses'])}, not for {use}"
                )

    def client(self) -> flight_client.Client:
        """Return a client of the servers. Nothing is sent before it is needed.

        gRPC does not survive a fork, and Spark forks its Python workers: call this in the process that uses
        the client.
        """
        return flight_client.connect(
            self.uri,
            token=self.token,
            token_file=self.token_file,
            username=self.username,
            password=self.password,
            tls_root_certs=self.tls_root_certs,
            cert_chain=self.tls_client_cert,
            private_key=self.tls_client_key,
            override_hostname=self.tls_hostname,
            disable_server_verification=self.tls_skip_verify,
        )

    def snapshot(self, client: flight_client.Client) -> Snapshot:
        """Return the requested version, or the latest one.

        Raises:
            DatasetNotFoundError: the dataset, version, tag or branch does not exist.
        """
        numbered = self.version if self.version is not None else self.version_as_of
        version = self.tag if numbered is None else numbered
        return client.snapshot(self.table, version, branch=self.branch, asof=self.timestamp_as_of)

    def _check_aggregates(self) -> None:
        """Refuse options of other reads beside aggregates, and groups without aggregates."""
        if self.aggregates is None:
            if self.group_by is not None:
                raise InvalidInputError("option groupBy is for aggregates, which are not given")
            return
        for each in fields(self):
            if each.name in _OF_ROWS and getattr(self, each.name) != each.default:
                raise InvalidInputError(f"option {each.metadata['option']} cannot be used with aggregates")

    def _check_one(self, *names: str) -> None:
        """Refuse more than one of these options."""
        by_name = {each.metadata["option"]: getattr(self, each.name) for each in fields(self)}
        given = [name for name in names if by_name[name] is not None]
        if len(given) > 1:
            raise InvalidInputError(f"options {' and '.join(given)}: expected one of them")


def _parsed(known: Mapping[str, Any], text: str) -> Any:
    try:
        return known["parse"](text)
    except (ValueError, KeyError):
        shown = "" if "token" in known["option"].lower() else f", found {text!r}"
        raise InvalidInputError(f"option {known['option']}: expected {known['expected']}{shown}") from None
