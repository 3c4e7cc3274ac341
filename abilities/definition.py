"""What an ability is: a typed tool with a name, and the context that it runs in."""

import inspect
import re
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeGuard

from pydantic import BaseModel

from abilities.declarations.fields import Detail, OutputFormat
from abilities.declarations.values import JsonObject, has_control_character, has_surrogate
from abilities.helpers.files.lister import FileLister
from abilities.helpers.files.reader import FileReader
from abilities.helpers.files.searcher import FileSearcher
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.reply.budget import Bound

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""A name that every kind of client accepts; OpenAI's allows 64 characters, the least of all."""

MAX_TITLE = 100
"""Characters of an ability's title."""

MAX_DESCRIPTION = 4_000
"""Characters of an ability's description; every client sends it to its model with every call."""

_PACKAGE = __name__.partition(".")[0]

_RESOURCE = re.compile(r"[a-z][a-z0-9+.-]*://\{([a-z][a-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Context:
    """What an ability's ``run`` receives besides its arguments.

    Read files and memories through ``files``, ``lister``, ``searcher`` and ``memory``, never with
    ``open()``: they keep to the caller's directories and namespace, the limits and the deny list.

    An answer that is larger than ``max_response_bytes`` as JSON is refused. If ``read_only`` is
    true, the caller may not change anything, and the registry refuses abilities that would; only if
    ``may_purge`` is true, it may delete memories with their history, which otherwise names
    ``caller`` with each change.
    ``disabled`` names the abilities that the settings do not offer, for those that could do the
    same in another way. Built-in abilities answer in ``output_format`` and ``detail`` if their
    arguments name no others; ``structured`` means that the payload is sent as JSON too.

    To fail the whole call, raise `Refused` with a reason, or `AbilityError`.
    """

    namespace: str
    files: FileReader
    lister: FileLister
    searcher: FileSearcher
    memory: MemoryHelper
    max_response_bytes: int
    read_only: bool = False
    disabled: tuple[str, ...] = ()
    output_format: OutputFormat = "json"
    structured: bool = False
    detail: Detail = "full"
    caller: str = "python"
    may_purge: bool = False

    @property
    def bound(self) -> Bound:
        """The bound of an answer, counted in the format in which it is sent."""
        if self.output_format != "text":
            return Bound(self.max_response_bytes)

        return Bound(self.max_response_bytes, "both" if self.structured else "text")


Run = Callable[[Context, Any], Awaitable[BaseModel | JsonObject]]
"""The function behind an ability: ``async def run(context, arguments) -> answer``."""


@dataclass(frozen=True, slots=True)
class Ability:
    """A typed tool that every surface can offer.

    ``name`` is in snake_case, at most 64 characters long. ``input`` and ``answer`` are pydantic
    models. The arguments are validated by ``input`` before ``run`` is awaited; ``run`` returns an
    instance of ``answer``, or the same as a dict. Unless the ability is built in, both happen on an
    event loop of its package, within 10 seconds.

    ``read_only``, ``idempotent`` and ``destructive`` tell clients whether to ask before they call.
    ``resource`` is a URI that holds the name of one argument, for example ``memory://{key}``; MCP
    clients can read the answer as a resource at such a URI.

    A description names no other ability, because that one may not be offered. ``see_also`` has a
    sentence for each ability that is worth naming; the first that is offered ends the description.

    Raises ValueError for a name, a title, a description or a resource that cannot be used, and
    TypeError for a field of another type.
    """

    name: str
    title: str
    description: str
    input: type[BaseModel]
    answer: type[BaseModel]
    run: Run
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False
    resource: str | None = None
    see_also: Mapping[str, str] = field(default_factory=dict[str, str], hash=False)

    package: str = field(init=False, repr=False, compare=False)
    """The top-level package that its function is from; its abilities share an event loop."""

    is_built_in: bool = field(init=False, repr=False, compare=False)
    """Whether it is one of this package's own, which runs on the event loop of its caller."""

    def __post_init__(self) -> None:
        self._check_types()
        # The only way to set a field of a frozen class.
        object.__setattr__(self, "package", _find_package(self.run))
        object.__setattr__(self, "is_built_in", self.package == _PACKAGE)

        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"an ability's name is snake_case, 64 characters at most: {self.name[:100]!r}"
            )

        if not self.description.strip():
            raise ValueError(
                f"ability {self.name} needs a description: it is what a model chooses by"
            )

        _check_text(f"title of {self.name}", self.title, MAX_TITLE)
        _check_text(f"description of {self.name}", self.description, MAX_DESCRIPTION)

        if self.resource is not None and not self._is_resource(self.resource):
            raise ValueError(
                f"ability {self.name}: a resource is read at 'scheme://{{argument}}', "
                "by an ability that is read_only"
            )

    def _check_types(self) -> None:
        """Raise TypeError for a field that no type checker would have let through."""
        texts: list[object] = [self.name, self.title, self.description, self.resource or ""]
        texts += self.see_also.values()
        flags: list[object] = [self.read_only, self.idempotent, self.destructive]

        if not all(isinstance(text, str) for text in texts):
            raise TypeError(
                "an ability's name, title, description, resource and see_also are strings"
            )

        if not all(isinstance(flag, bool) for flag in flags):
            raise TypeError("an ability's read_only, idempotent and destructive are booleans")

        if not (_is_model(self.input) and _is_model(self.answer)):
            raise TypeError("an ability's input and answer are pydantic models")

        if not callable(self.run):
            raise TypeError("an ability's run is an async function")

    def __call__(self, *arguments: Any, **named: Any) -> Awaitable[Any]:
        """Call the function as it was written, for tests: nothing is validated or bounded."""
        function: Callable[..., Awaitable[Any]] = inspect.unwrap(self.run)
        return function(*arguments, **named)

    def describe_beside(self, offered: Container[str]) -> Self:
        """Return the ability as it is described beside the abilities of these names."""
        for name, sentence in self.see_also.items():
            if name in offered:
                description = f"{self.description} {sentence}"
                return replace(self, description=description, see_also={})

        return self

    def _is_resource(self, resource: str) -> bool:
        match = _RESOURCE.fullmatch(resource)
        if match is None:
            return False

        # Clients read resources without asking anybody, so reading one must change nothing.
        return self.read_only and match[1] in self.input.model_fields


@dataclass(frozen=True, slots=True)
class LazyAbility:
    """An ability that is known by its name; ``load`` imports it, and returns it every time."""

    name: str
    load: Callable[[], Ability]


def _find_package(run: object) -> str:
    while isinstance(run, partial):
        run = run.func

    return str(getattr(run, "__module__", None)).partition(".")[0]


def _check_text(what: str, text: str, max_chars: int) -> None:
    """Raise ValueError for a text that is too long, or that some surface cannot show."""
    if len(text) > max_chars:
        raise ValueError(f"the {what} is longer than {max_chars:,} characters")

    printable = text.replace("\n", "").replace("\t", "")
    if has_surrogate(text) or has_control_character(printable):
        raise ValueError(f"the {what} holds a control character or a surrogate")


def _is_model(hint: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(hint, type) and issubclass(hint, BaseModel)
