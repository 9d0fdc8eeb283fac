"""Authorization: from the identity of a caller to what the grants in the settings allow."""

from flight_server.rights.grants import Access, Grant
from flight_server.security.identity import Identity
from flight_server.security.watched import WatchedFiles
from flight_server.settings import Settings
from lance_core.errors import InvalidInputError

_NOTHING = Access(())
"""Access of the servers of the root, which only ask each other whether they are ready."""

_MOST_CALLERS = 1024
"""Callers whose access is kept for their next call."""


class Authorization:
    """Rights of the callers of one server. Thread-safe; reads the grants again when their file changes."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._use(settings.grant)
        path = settings.settings_file
        self._file = WatchedFiles([] if path is None else [path], self._load)

    def access_of(self, identity: Identity) -> Access | None:
        """Return the rights of a caller. None: there are no grants, so every caller has every right.

        Another server has none, with grants or without: its token may travel over a connection that others
        can read.
        """
        if identity.how == "server":
            return _NOTHING
        self._file.look()
        grants, known = self._current
        if not grants:
            return None
        access = known.get(identity)
        if access is None:
            access = Access([grant for grant in grants if _fits(grant, identity)])
            if len(known) >= _MOST_CALLERS:
                known.clear()
            known[identity] = access
        return access

    def reload(self) -> None:
        """Read the grants again. A settings file that cannot be used changes nothing."""
        self._file.reload()

    def _use(self, grants: tuple[Grant, ...]) -> None:
        known: dict[Identity, Access] = {}
        self._current = grants, known

    def _load(self) -> None:
        grants = self._settings.read_again().grant
        if self._current[0] and not grants:
            raise InvalidInputError(
                f"the settings file {self._settings.settings_file} has no grants any more; without grants "
                "every caller has every right, which needs a restart of the server"
            )
        self._use(grants)


def _fits(grant: Grant, identity: Identity) -> bool:
    """Return whether a grant is for a caller."""
    return identity.subject is not None and grant.fits(identity.subject, identity.roles, identity.claims)
