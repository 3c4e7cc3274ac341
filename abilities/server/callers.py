"""Callers: which application a request may use, by its token; the one check for HTTP and MCP."""

import logging
from collections.abc import Sequence

from abilities.application import Abilities
from abilities.declarations.faults import Refused
from abilities.helpers.tokens import TokenFile

_log = logging.getLogger("abilities")


class Callers:
    """Tells a request's `Abilities`: those of its token's namespace and scope.

    Without any token everybody is the settings' own namespace, unless ``demanded``. Once there was a token, one is
    needed for as long as the process lives: a tokens file that is lost locks out, it does not open up.
    """

    def __init__(self, abilities: Abilities, tokens: TokenFile, *, demanded: bool = False) -> None:
        self._abilities = abilities
        self._tokens = tokens
        self._demanded = demanded
        self._known: dict[tuple[str, bool], Abilities] = {}

    def identify(self, authorization: Sequence[str]) -> Abilities:
        """The application for the values of a request's Authorization headers. Raises Refused("unauthorized")."""
        try:
            return self._of(authorization)
        except ValueError as error:
            _log.error("every token is refused: %s", error)
            raise Refused("unauthorized") from None

    def _of(self, authorization: Sequence[str]) -> Abilities:
        tokens = self._tokens.tokens()
        self._demanded = self._demanded or bool(tokens)
        if not self._demanded:
            return self._abilities
        self._abilities.settings.check_namespaces(token.namespace for token in tokens)
        kind, _, given = (
            authorization[0].partition(" ") if len(authorization) == 1 else ("", "", "")
        )
        token = self._tokens.find(given.strip()) if kind.lower() == "bearer" else None
        if token is None:
            raise Refused("unauthorized")
        whose = (token.namespace, token.scope == "read")
        if whose not in self._known:
            self._known[whose] = self._abilities.for_namespace(token.namespace, read_only=whose[1])
        return self._known[whose]
