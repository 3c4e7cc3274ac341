"""An ability: one typed tool, told apart by its name, and the context that it runs in."""

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel

from abilities.helpers.files.lister import FileLister
from abilities.helpers.files.reader import FileReader
from abilities.helpers.memory.helper import MemoryHelper

_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RESOURCE = re.compile(r"[a-z][a-z0-9+.-]*://\{([a-z][a-z0-9_]*)\}")


@dataclass(frozen=True, slots=True)
class Context:
    """What an ability's run receives besides its arguments.

    ``files``, ``lister`` and ``memory`` are the shared ways to files and memory; use them, not ``open()``, so that
    confinement, limits and deny list hold. ``max_response_bytes`` is the bound of the answer as JSON:
    a larger one is refused. ``read_only`` is true for callers who may not change anything: the registry
    refuses them every other ability. To refuse a call, raise `abilities.errors.Refused` with a known reason, or
    `AbilityError`.
    """

    namespace: str
    files: FileReader
    lister: FileLister
    memory: MemoryHelper
    max_response_bytes: int
    read_only: bool = False


Run = Callable[[Context, Any], Awaitable[BaseModel | dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Ability:
    """A typed tool that every surface can offer.

    ``name`` is snake_case, 64 characters at most. ``input`` and ``answer`` are pydantic models: the input
    is validated before ``run`` is awaited; the answer's model is published, and run returns an instance
    of it or the same as a dict. ``read_only``, ``idempotent`` and ``destructive`` tell clients whether to
    ask before they call. ``resource`` is a URI with one argument's name in it, as ``memory://{key}``, by which
    MCP clients read the answer as a resource.
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
        if self.resource is not None:
            named = _RESOURCE.fullmatch(self.resource)
            if not self.read_only or named is None or named[1] not in self.input.model_fields:
                raise ValueError(
                    f"ability {self.name}: a resource is read, as 'scheme://{{argument}}'"
                )


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

    The name is the function's, the description its docstring and the models its annotations, unless
    given. Raises ValueError or TypeError when one of them is missing.
    """

    def make(run: Run) -> Ability:
        chosen = name or run.__name__
        arguments, answer = _models(run)
        return Ability(
            name=chosen,
            title=title or chosen.replace("_", " ").capitalize(),
            description=description or inspect.getdoc(run) or "",
            input=arguments,
            answer=answer,
            run=run,
            read_only=read_only,
            idempotent=idempotent,
            destructive=destructive,
            resource=resource,
        )

    return make


def _models(run: Run) -> tuple[type[BaseModel], type[BaseModel]]:
    hints = get_type_hints(run)
    answer = hints.pop("return", None)
    models = [hint for hint in (*list(hints.values())[1:2], answer) if _is_model(hint)]
    if len(models) != 2 or not inspect.iscoroutinefunction(run):
        raise TypeError(
            "an ability is 'async def run(context: Context, arguments: Model) -> Model'"
        )
    return models[0], models[1]


def _is_model(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, BaseModel)
