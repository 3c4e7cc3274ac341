"""Callers: which application a request may use, by its token; the one check for HTTP and MCP."""

import logging
from collections.abc import Sequence

from abilities.application import Abilities
from abilities.helpers.tokens import Token, TokenFile
from abilities.server.refusals import RefusedRequest

_log = logging.getLogger("abilities")


class Callers:
    """Finds the `Abilities` of a request: those of its token's namespace and scope.

    As long as there are no tokens, everyone is in the namespace of the settings, unless
    ``demanded``. Once there was a token, one is needed for as long as the process lives: losing the
    tokens file locks callers out, it does not let everyone in.
    """

    def __init__(self, abilities: Abilities, tokens: TokenFile, *, demanded: bool = False) -> None:
        self._abilities = abilities
        self._tokens = tokens
        self._demanded = demanded

    def identify(self, authorization: Sequence[str]) -> Abilities:
        """Return the application for the values of a request's Authorization headers.

        Raises RefusedRequest(401): the request needs a valid token, or the tokens file is damaged.
        """
        try:
            if not self._is_token_needed():
                return self._abilities

            token = self._find_token(authorization)
        except ValueError as error:
            _log.error("every token is refused: %s", error)
            token = None

        if token is None:
            raise RefusedRequest(401, "unauthorized")

        read_only = token.scope == "read"
        return self._abilities.for_namespace(token.namespace, read_only=read_only)

    def _is_token_needed(self) -> bool:
        """Whether callers need a token. Raises ValueError if the tokens cannot be used."""
        tokens = self._tokens.tokens()
        self._demanded = self._demanded or bool(tokens)

        if self._demanded:
            self._abilities.settings.check_namespaces(token.namespace for token in tokens)

        return self._demanded

    def _find_token(self, authorization: Sequence[str]) -> Token | None:
        """Return the token that a request carries; None if there is none, or not exactly one."""
        if len(authorization) != 1:
            return None

        scheme, _, text = authorization[0].partition(" ")
        if scheme.lower() != "bearer":
            return None

        return self._tokens.find(text.strip())
