"""Log of the server process: one line per event on stderr, as text or as JSON.

Stdout is left to the ready lines. docs/operations.md lists the events.
"""

import json
import logging
import re
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from types import TracebackType
from urllib.parse import parse_qsl, urlsplit, urlunsplit

# The process runs with `sys.tracebacklimit = 0`, so that no stack reaches a client; the log says how deep
# it wants one.
_STACK_FRAMES = 40

_PACKAGES = ("flight_server", "lance_core")
_PUBLIC_PARAMETERS = ("ddbTableName",)
"""Parameters of root URLs that are no secrets."""

_FACTS = "facts"
"""Attribute of the records of events."""

_PLAIN = re.compile(r"[^\s\"=]+")
_log = logging.getLogger("flight_server")
_audit = logging.getLogger("lance_flight_audit")
_of_process: dict[str, object] = {}
"""Facts of every line."""


class TextFormatter(logging.Formatter):
    """Formatter of lines `time level event name=value ...`.

    Control characters are escaped, so that no name or message can begin a line of the log.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name of the base class
        line = super().formatMessage(record)
        line = " ".join([line, *(f"{name}={_text(value)}" for name, value in _facts_of(record).items())])
        return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)

    def formatException(  # noqa: N802 - the name of the base class
        self,
        ei: tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None],
    ) -> str:
        return _stack(ei[1])


class JsonFormatter(logging.Formatter):
    """Formatter of lines that are one JSON object each: `time` in UTC, `level`, `event`, and the facts.

    Lines of other libraries have `logger` and `message` instead of an event. A stack is in `stack`.
    """

    def format(self, record: logging.LogRecord) -> str:
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, object] = {"time": time.replace("+00:00", "Z"), "level": record.levelname}
        if hasattr(record, _FACTS):
            line |= {"event": record.msg, **_facts_of(record)}
        else:
            line |= {"logger": record.name, "message": record.getMessage()}
        if record.exc_info:
            line["stack"] = _stack(record.exc_info[1])
        return json.dumps(line, default=str)


FORMATTERS: Mapping[str, type[logging.Formatter]] = {"text": TextFormatter, "json": JsonFormatter}
"""Formatters by the value of the setting `log_format`."""


class _AuditFile(WatchedFileHandler):
    """File of the audit log. If a line cannot be written, the log of the server says so."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of the base class
        error = sys.exc_info()[1]
        reason = error.strerror if isinstance(error, OSError) else type(error).__name__
        lost = {"lost": record.msg, "request_id": _facts_of(record).get("request_id")}
        message = f"the audit log {self.baseFilename} cannot be written: {reason}"
        log_event(logging.ERROR, "audit_failed", lost | {"message": message})


def configure_logging(level: str, line_format: str = "text", worker: int | None = None) -> None:
    """Send the records of `level` and above to stderr, in one of the forms of `FORMATTERS`.

    Lines have the number of the worker, if it is given.

    Other libraries get no level below WARNING: at DEBUG some log request headers, which hold credentials.
    """
    if worker is not None:
        _of_process["worker"] = worker
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(FORMATTERS[line_format]())
    number = logging.getLevelNamesMapping()[level]
    logging.basicConfig(level=max(number, logging.WARNING), handlers=[handler], force=True)
    for package in _PACKAGES:
        logging.getLogger(package).setLevel(number)


def configure_audit(target: str | None) -> None:
    """Write the audit log to a file, or with `-` to stderr; None: there is none.

    The file may be moved or removed at any time: the next line begins another one. Several processes may
    write to one file: each line is one write at its end.
    """
    for handler in list(_audit.handlers):
        _audit.removeHandler(handler)
        handler.close()
    if target is None:
        return
    handler = logging.StreamHandler(sys.stderr) if target == "-" else _AuditFile(target, encoding="utf-8")
    handler.setFormatter(JsonFormatter())
    _audit.addHandler(handler)
    _audit.setLevel(logging.INFO)
    _audit.propagate = False


def is_audited() -> bool:
    """Return whether there is an audit log."""
    return bool(_audit.handlers)


def audit_event(event: str, facts: Mapping[str, object]) -> None:
    """Write one line to the audit log, if there is one. A fact that is None is left out."""
    if is_audited():
        _audit.info(event, extra={_FACTS: _told(facts)})


def is_logged(level: int) -> bool:
    """Return whether events of this level reach the log."""
    return _log.isEnabledFor(level)


def log_event(
    level: int, event: str, facts: Mapping[str, object], stack_of: BaseException | None = None
) -> None:
    """Write one line: the event, then the facts in their order. A fact that is None is left out."""
    if _log.isEnabledFor(level):
        _log.log(level, event, exc_info=stack_of, extra={_FACTS: _told(facts)})


def _told(facts: Mapping[str, object]) -> Mapping[str, object]:
    return {name: value for name, value in (_of_process | dict(facts)).items() if value is not None}


def _facts_of(record: logging.LogRecord) -> Mapping[str, object]:
    """Return the facts of an event; records of other libraries have none."""
    return getattr(record, _FACTS, {})


def _stack(error: BaseException | None) -> str:
    return "".join(traceback.format_exception(error, limit=_STACK_FRAMES)).rstrip()


def _text(value: object) -> str:
    """Return the value as the log shows it: quoted like JSON if it holds spaces, quotes or `=`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    text = str(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def without_secrets(root: str) -> str:
    """Return a root as the log may show it: passwords and the values of parameters become `***`."""
    if "://" not in root:
        return root
    parts = urlsplit(root)
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    query = "&".join(
        f"{key}={value if key in _PUBLIC_PARAMETERS else '***'}"
        for key, value in parse_qsl(parts.query, keep_blank_values=True)
    )
    netloc = f"{name}:***{at}{host}" if colon else parts.netloc
    return urlunsplit((parts.scheme, netloc, parts.path, query, ""))
