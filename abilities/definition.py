"""What an ability is: a typed tool with a name, and the context that it runs in."""

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeGuard, get_type_hints

from pydantic import BaseModel

from abilities.declarations.values import JsonObject
from abilities.helpers.files.lister import FileLister
from abilities.helpers.files.reader import FileReader
from abilities.helpers.memory.helper import MemoryHelper

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""A name that every kind of client accepts; OpenAI's allows 64 characters, the least of all."""

_RESOURCE = re.compile(r"[a-z][a-z0-9+.-]*://\{([a-z][a-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Context:
    """What an ability's ``run`` receives besides its arguments.

    Read files and memories through ``files``, ``lister`` and ``memory``, never with ``open()``:
    they keep to the caller's directories and namespace, the limits and the deny list.

    An answer that is larger than ``max_response_bytes`` as JSON is refused. If ``read_only`` is
    true, the caller may not change anything, and the registry refuses abilities that would.

    To fail the whole call, raise `Refused` with a reason, or `AbilityError`.
    """

    namespace: str
    files: FileReader
    lister: FileLister
    memory: MemoryHelper
    max_response_bytes: int
    read_only: bool = False


Run = Callable[[Context, Any], Awaitable[BaseModel | JsonObject]]
"""The function behind an ability: ``async def run(context, arguments) -> answer``."""


@dataclass(frozen=True, slots=True)
class Ability:
    """A typed tool that every surface can offer.

    ``name`` is in snake_case, at most 64 characters long. ``input`` and ``answer`` are pydantic
    models. The arguments are validated by ``input`` before ``run`` is awaited; ``run`` returns an
    instance of ``answer``, or the same as a dict.

    ``read_only``, ``idempotent`` and ``destructive`` tell clients whether to ask before they call.
    ``resource`` is a URI that holds the name of one argument, for example ``memory://{key}``; MCP
    clients can read the answer as a resource at such a URI.

    Raises ValueError for a name, a description or a resource that cannot be used.
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

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"an ability's name is snake_case, 64 characters at most: {self.name!r}"
            )

        if not self.description.strip():
            raise ValueError(
                f"ability {self.name} needs a description: it is what a model chooses by"
            )

        if self.resource is not None and not self._is_resource(self.resource):
            raise ValueError(
                f"ability {self.name}: a resource is read at 'scheme://{{argument}}', "
                "by an ability that is read_only"
            )

    def _is_resource(self, resource: str) -> bool:
        match = _RESOURCE.fullmatch(resource)
        if match is None:
            return False

        # Clients read resources without asking anybody, so reading one must change nothing.
        return self.read_only and match[1] in self.input.model_fields


def ability(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    resource: str | None = None,
) -> Callable[[Run], Ability]:
    """Make an Ability of an async function ``run(context, arguments) -> answer``.

    By default the name is the function's, the title is made of the name, and the description is the
    function's docstring. The models are the function's annotations.

    The decorator raises TypeError if the function is not async or lacks annotations, and ValueError
    as `Ability` does.
    """

    def make_ability(run: Run) -> Ability:
        models = _find_models(run)
        chosen_name = name or run.__name__

        return Ability(
            name=chosen_name,
            title=title or chosen_name.replace("_", " ").capitalize(),
            description=description or inspect.getdoc(run) or "",
            input=models.input,
            answer=models.answer,
            run=run,
            read_only=read_only,
            idempotent=idempotent,
            destructive=destructive,
            resource=resource,
        )

    return make_ability


class _Models(NamedTuple):
    input: type[BaseModel]
    answer: type[BaseModel]


def _find_models(run: Run) -> _Models:
    """Return the models of a function's second parameter and of what it returns."""
    hints = get_type_hints(run)  # resolves annotations that are strings
    answer = hints.pop("return", None)

    if inspect.iscoroutinefunction(run) and len(hints) > 1:
        _, arguments, *_ = hints.values()
        if _is_model(arguments) and _is_model(answer):
            return _Models(arguments, answer)

    raise TypeError("an ability is 'async def run(context: Context, arguments: Model) -> Model'")


def _is_model(hint: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(hint, type) and issubclass(hint, BaseModel)
