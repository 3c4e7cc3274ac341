"""The definition of an ability, a typed tool with a name, and of the context that it runs in."""

import inspect
import re
from collections.abc import Awaitable, Callable, Container, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, TypeGuard

from pydantic import BaseModel

from abilities.declarations.fields import Detail, OutputFormat
from abilities.declarations.values import JsonObject, has_control_character, has_surrogate
from abilities.helpers.files.files import Files
from abilities.helpers.memory.helper import MemoryHelper
from abilities.helpers.reply.budget import Bound

MAX_TITLE = 100
"""Characters of an ability's title."""

MAX_DESCRIPTION = 4_000
"""Characters of an ability's description; every client sends it to its model with every call."""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""A name that every kind of client accepts; OpenAI's limit of 64 characters is the lowest."""

_RESOURCE = re.compile(r"[a-z][a-z0-9+.-]*://\{([a-z][a-z0-9_]*)\}")

_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a call, which an ability's ``run`` receives besides the arguments.

    Read files and memories through ``files`` and ``memory``, never with ``open()``: they enforce
    the caller's directories and namespace, the limits and the deny list.

    An answer that is larger than ``max_response_bytes`` as JSON is refused. If ``read_only`` is
    true, the caller may not change anything, and the registry refuses abilities that would. If
    ``may_purge`` is true, the caller may delete memories with their history. The history records
    ``caller`` with each change.

    ``remembers`` is whether files come with what is remembered about them.

    ``disabled`` names the abilities that the settings do not offer, so that others do not do the
    same in another way. ``output_format`` and ``detail`` are the defaults for the arguments of
    built-in abilities; ``structured`` means that the payload is also sent as JSON.

    To fail the whole call, raise `Refused` with a reason, or `AbilityError`.
    """

    namespace: str
    files: Files
    memory: MemoryHelper
    max_response_bytes: int
    read_only: bool = False
    disabled: tuple[str, ...] = ()
    output_format: OutputFormat = "json"
    structured: bool = False
    detail: Detail = "full"
    caller: str = "python"
    may_purge: bool = False
    remembers: bool = False

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
    instance of ``answer``, or a dict with the same fields. Unless the ability is built in, both
    happen on an event loop of its package, within 10 seconds.

    By ``read_only``, ``idempotent`` and ``destructive``, clients decide whether to ask the user
    before a call. ``resource`` is a URI with a placeholder for one argument, for example
    ``memory://{key}``; MCP clients can read the answer as a resource at such a URI.

    A description names no other ability, because that one may not be offered. ``see_also`` has
    sentences by the names of other abilities; the sentence of the first one that is offered is
    added to the description.

    Raises ValueError for an unusable name, title, description or resource, and TypeError for a
    field of another type.
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
    """The top-level package of its function; the abilities of a package share an event loop."""

    is_built_in: bool = field(init=False, repr=False, compare=False)
    """Whether it is one of this package, which runs on the event loop of its caller."""

    def __post_init__(self) -> None:
        texts: list[object] = [self.name, self.title, self.description, self.resource or ""]
        texts += self.see_also.values()
        flags: list[object] = [self.read_only, self.idempotent, self.destructive]

        if not all(isinstance(text, str) for text in texts):
            raise TypeError(
                "an ability's name, title, description, resource and see_also are strings"
            )

        if not all(isinstance(flag, bool) for flag in flags):
            raise TypeError("an ability's read_only, idempotent and destructive are booleans")

        if not (is_model(self.input) and is_model(self.answer)):
            raise TypeError("an ability's input and answer are pydantic models")

        if not callable(self.run):
            raise TypeError("an ability's run is an async function")

        run: object = self.run
        while isinstance(run, partial):
            run = run.func

        package = str(getattr(run, "__module__", None)).partition(".")[0]
        # The only way to set a field of a frozen class.
        object.__setattr__(self, "package", package)
        object.__setattr__(self, "is_built_in", package == _PACKAGE)

        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"an ability's name is snake_case, 64 characters at most: {self.name[:100]!r}"
            )

        if not self.description.strip():
            raise ValueError(f"ability {self.name} needs a description, by which models choose it")

        _check_text(f"title of {self.name}", self.title, MAX_TITLE)
        _check_text(f"description of {self.name}", self.description, MAX_DESCRIPTION)

        if self.resource is None:
            return

        # Clients read resources without asking the user, so reading one must not change anything.
        match = _RESOURCE.fullmatch(self.resource)
        is_resource = match is not None and match[1] in self.input.model_fields
        if not (is_resource and self.read_only):
            raise ValueError(
                f"ability {self.name}: a resource is read at 'scheme://{{argument}}', "
                "by an ability that is read_only"
            )

    def __call__(self, *arguments: Any, **named: Any) -> Awaitable[Any]:
        """Call the original function, for tests: nothing is validated or bounded."""
        function: Callable[..., Awaitable[Any]] = inspect.unwrap(self.run)
        return function(*arguments, **named)

    def describe_beside(self, offered: Container[str]) -> Self:
        """Return the ability with its description for clients that have these abilities."""
        for name, sentence in self.see_also.items():
            if name in offered:
                description = f"{self.description} {sentence}"
                return replace(self, description=description, see_also={})

        return self


def built_in(
    title: str, description: str, answer: type[BaseModel], **properties: Any
) -> Callable[[Run], Ability]:
    """Turn a function of a context and a model into the built-in ability of its name."""

    def make_ability(run: Run) -> Ability:
        _, model, _ = run.__annotations__.values()
        return Ability(run.__name__, title, description, model, answer, run, **properties)

    return make_ability


@dataclass(frozen=True, slots=True)
class LazyAbility:
    """An ability that is imported when it is needed; ``load`` returns the same one every time."""

    name: str
    load: Callable[[], Ability]


def _check_text(name: str, text: str, max_chars: int) -> None:
    """Raise ValueError for a text that is too long, or that some client cannot show."""
    if len(text) > max_chars:
        raise ValueError(f"the {name} is longer than {max_chars:,} characters")

    printable = text.replace("\n", "").replace("\t", "")
    if has_surrogate(text) or has_control_character(printable):
        raise ValueError(f"the {name} contains a control character or a surrogate")


def is_model(hint: object) -> TypeGuard[type[BaseModel]]:
    """Return whether a type is a pydantic model."""
    return isinstance(hint, type) and issubclass(hint, BaseModel)
