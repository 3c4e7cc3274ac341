"""What `abilities doctor` checks of tokens: their file, and whether callers need one and why."""

from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple

from abilities.cli.checks import Diagnosis, check_privacy, check_separation
from abilities.cli.text import format_count
from abilities.helpers.tokens import TokenFile, TokenSet
from abilities.settings import Settings

WAY_OUT = (
    "make a token: abilities token add --scope read; "
    "or set require_tokens = false, which opens a server to all on this machine"
)
"""What to do about a server that refuses everybody."""


class Lock(NamedTuple):
    """Whether callers on this machine need a token, and the reason as part of a sentence."""

    is_locked: bool
    reason: str


async def find_lock(
    settings: Settings, tokens: TokenSet, recall: Callable[[], Awaitable[bool | None]]
) -> Lock:
    """Return what holds for callers on this machine.

    ``recall`` returns whether the store remembers tokens, None if it does not answer. It is asked
    only if that matters.
    """
    if settings.require_tokens is not None:
        value = str(settings.require_tokens).lower()
        return Lock(settings.require_tokens, f"require_tokens is set to {value}")
    if tokens.problem:
        return Lock(True, tokens.problem)
    if tokens.by_id:
        return Lock(True, "there are tokens")
    if tokens.exists:
        return Lock(True, "the tokens file is there, but no token is left in it")

    remembered = await recall()
    if remembered is None:
        return Lock(True, "the store does not answer, and may remember that there were tokens")
    if remembered:
        return Lock(True, "the tokens file is gone, and the store remembers that there were tokens")

    return Lock(False, "there never was a token")


async def check_tokens(settings: Settings, *, remembered: bool | None) -> list[Diagnosis]:
    """Check that the tokens file works and is private, and say who may call 'abilities serve'.

    ``remembered`` is whether the store remembers tokens, None if it does not say.
    """

    async def recall() -> bool | None:
        return remembered

    tokens = TokenFile(settings.tokens_file).load()
    lock = await find_lock(settings, tokens, recall)

    return [*_check_file(settings, tokens), *_explain_lock(tokens, lock)]


def _check_file(settings: Settings, tokens: TokenSet) -> Iterator[Diagnosis]:
    path = settings.tokens_file

    if tokens.problem:
        yield Diagnosis(
            "fails",
            "tokens",
            f"{path}: {tokens.problem}; every token is refused",
            "restore the file, or remove it and make new tokens: abilities token add",
        )
    elif tokens.exists:
        yield from check_privacy(path, "tokens", secret=True)
        yield from check_separation(path, "tokens", settings)

    if tokens.by_id:
        yield from _check_namespaces(settings, tokens)
    elif settings.allowed_hosts:
        names = ", ".join(settings.allowed_hosts)
        yield Diagnosis(
            "fails",
            "tokens",
            f"allowed_hosts ({names}) needs tokens, and there are none: "
            "'abilities serve' does not start",
            "make a token: abilities token add --scope read",
        )


def _check_namespaces(settings: Settings, tokens: TokenSet) -> Iterator[Diagnosis]:
    scopes = [token.scope for token in tokens.by_id.values()]
    words = f"{format_count(len(scopes), 'token')}, {scopes.count('write')} with write scope"
    if "metrics" in scopes:
        words += f", {scopes.count('metrics')} for metrics alone"
    if tokens.namespaces:
        words += f"; namespaces: {', '.join(sorted(tokens.namespaces))}"

    yield Diagnosis("ok", "tokens", words)

    try:
        settings.check_namespaces(tokens.namespaces)
    except ValueError as error:
        yield Diagnosis(
            "fails",
            "tokens",
            str(error),
            "change these settings: until then 'abilities serve' does not start",
        )


def _explain_lock(tokens: TokenSet, lock: Lock) -> Iterator[Diagnosis]:
    """Say who may call a server on this machine, unless its tokens say that already."""
    if not lock.is_locked:
        words = f"none is needed: {lock.reason}, so 'abilities serve' answers only this machine"
        mend = ""

        if tokens.exists:
            mend = "to require tokens again, remove require_tokens from the settings"

        yield Diagnosis("note" if tokens.exists else "ok", "tokens", words, mend)
    elif not tokens.by_id:
        words = f"'abilities serve' refuses every caller: {lock.reason}"
        yield Diagnosis("note", "tokens", words, WAY_OUT)
