"""Abilities as plain functions, and the `Host` that runs their calls for a framework.

A host opens an application once and can be used from any event loop and any thread. A framework
that takes a name, a schema and a function to call can use `load_functions` directly.

Some frameworks and model services accept only strict schemas, in which every field is required, or
derive one from every schema. Their own conversion would not describe the arguments that an ability
takes, so they get schemas in which null replaces an optional field.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel

from abilities.application import Abilities, Opening
from abilities.declarations.memory import parse_namespace
from abilities.declarations.values import JsonObject, as_object, parse_document
from abilities.definition import Ability, build_schema
from abilities.helpers.threads.loops import LoopThread
from abilities.registry import AbilityRegistry, Reply
from abilities.settings import Settings

T = TypeVar("T")
Work = Coroutine[Any, Any, T]

Source = Abilities | Opening | Settings | Sequence[Ability] | None
"""The application behind tools: open, or opened at the first call.

An `Opening` is the result of `Abilities.open`. Settings, a sequence of abilities, or None (the
settings of the environment) are arguments for it.
"""

_UNNAMED = object()

_background = LoopThread("abilities-adapters", "the adapters")
"""The background loop of this process. It starts when it is first needed."""


def _submit_to_background(work: Work[T]) -> Future[T]:
    """Run a coroutine on the background loop. May be called from any thread."""
    return asyncio.run_coroutine_threadsafe(work, _background.start())


def _forget_background_loop() -> None:
    """Let a forked process start its own loop, because it has no threads of its parent."""
    global _background
    _background = LoopThread("abilities-adapters", "the adapters")


os.register_at_fork(after_in_child=_forget_background_loop)


class Host:
    """Calls abilities for a framework.

    ``caller`` is the framework's name in the history, logs and metrics. If the application was not
    open, it is opened at the first call, and stays open on a background loop until the process
    ends. With ``required`` each call must name a namespace. The phrase says how, and is part of
    the error for a call without one. ``reads`` are the other namespaces to read; None are those of
    the settings. Raises ValueError if a root in the settings must not be shared or does not exist.
    """

    def __init__(
        self,
        source: Source,
        caller: str,
        *,
        required: str | None = None,
        reads: Sequence[str] | None = None,
    ) -> None:
        if source is None or isinstance(source, Settings):
            source = Abilities.open(source)
        elif isinstance(source, Sequence):
            source = Abilities.open(abilities=source)

        if isinstance(source, Opening):
            source.settings.check_roots()

        self._source: Abilities | Opening = source
        self._caller = caller
        self._required = required
        self._reads = reads
        self._lock = threading.Lock()
        self._opening: Future[Abilities] | None = None
        self._view: Abilities | None = None
        self._process = os.getpid()
        self._stack = AsyncExitStack()

    def build_registry(self) -> AbilityRegistry:
        """Return the registry of the abilities that are offered, without opening the application.

        Raises ValueError for tools in the settings that do not exist, and as `Abilities.open` does
        for abilities in the source.
        """
        if isinstance(self._source, Abilities):
            return self._source.registry

        return self._source.build_registry()

    async def call(self, name: str, arguments: object, namespace: str | int | None = None) -> Reply:
        """Call an ability for a model. May be awaited on any event loop.

        The default namespace is that of the settings, unless one is required. Raises ValueError if
        a required namespace is missing, if the namespace is not valid, and if the application
        cannot be opened with its settings.
        """
        abilities = await self.get_view(namespace)
        return await abilities.reply(name, arguments, for_model=True)

    async def get_view(self, namespace: str | int | None = None) -> Abilities:
        """Return the application as the framework sees it. Raises ValueError as `call` does."""
        if self._required is not None:
            check_namespace(namespace, self._required)

        # A forked process has no threads of its parent, so it needs an application of its own.
        if self._process != os.getpid():
            self._process = os.getpid()
            self._lock = threading.Lock()
            self._opening = None
            self._view = None

        abilities = self._view
        if abilities is None:
            opened = await self._open()
            abilities = self._view = opened.for_caller(self._caller, reads=self._reads)

        if namespace is not None:
            abilities = abilities.for_namespace(parse_namespace(namespace))

        return abilities

    async def run(self, work: Work[T]) -> T:
        """Run a coroutine on the background loop. May be awaited on any event loop."""
        return await asyncio.wrap_future(_submit_to_background(work))

    def run_sync(self, work: Work[T]) -> T:
        """Run a coroutine on the background loop, from a thread that may block."""
        return _submit_to_background(work).result()

    async def _open(self) -> Abilities:
        """Return the open application. The first call opens it."""
        if isinstance(self._source, Abilities):
            return self._source

        # A thread lock, because tools may run on several loops. It is never held while waiting.
        with self._lock:
            opening = self._opening
            has_failed = (
                opening is not None
                and opening.done()
                and (opening.cancelled() or opening.exception() is not None)
            )

            # After a failure the next call tries again: the cause may be repaired by then.
            if opening is None or has_failed:
                # The stack is never closed: the application lives as long as the process.
                self._stack = AsyncExitStack()
                entering = self._stack.enter_async_context(self._source)
                opening = self._opening = _submit_to_background(entering)

        if opening.done():
            return opening.result()

        # If a caller is canceled, the opening goes on, because other callers may wait for it.
        return await asyncio.shield(asyncio.wrap_future(opening))


def check_namespace(namespace: str | int | None, place: str) -> None:
    """Raise ValueError if a namespace is missing. ``place`` says how to name one.

    Without this check, the memories of all users would be in the namespace of the settings.
    """
    if namespace is None:
        raise ValueError(f"no namespace was given, and require_namespace is set: {place}")


def find_namespace(context: object) -> str | None:
    """Return the namespace that the context of a run names, or None if it names none.

    It is the key ``namespace`` of a mapping, or the attribute ``namespace`` of any other object.
    Raises ValueError if its value is not a valid namespace.

    >>> find_namespace({"namespace": 42}), find_namespace({}), find_namespace(None)
    ('42', None, None)
    """
    named: object
    if isinstance(context, Mapping):
        fields = cast(Mapping[object, object], context)
        named = fields.get("namespace", _UNNAMED)
    else:
        named = getattr(context, "namespace", _UNNAMED)

    # An empty name counts as given and is refused: it must not open the memories of others.
    return None if named is _UNNAMED else parse_namespace(named)


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """One ability as a function.

    ``schema`` is the JSON Schema of its arguments in the form for models, as a new dict. ``model``
    is their pydantic model, for frameworks that take no schema. A ``read_only`` function changes
    nothing.
    """

    name: str
    description: str
    schema: JsonObject
    model: type[BaseModel]
    read_only: bool
    _host: Host = field(repr=False)

    async def call(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        namespace: str | int | None = None,
    ) -> Reply:
        """Call the ability on any event loop.

        ``arguments`` are a mapping, or a JSON object as a string. The default namespace is that of
        the settings. If the arguments are invalid or the call fails as a whole, the reply is
        ``failed`` and its text is the fault. Raises ValueError if the namespace is not valid.
        """
        return await self._host.call(self.name, _read_arguments(arguments), namespace)

    def call_sync(
        self,
        arguments: Mapping[str, Any] | str | None = None,
        *,
        namespace: str | int | None = None,
    ) -> Reply:
        """Call the ability as `call` does, from synchronous code."""
        return self._host.run_sync(self.call(arguments, namespace=namespace))


def load_functions(
    source: Source = None,
    *,
    only: Sequence[str] | None = None,
    read_only: bool = False,
    require_namespace: bool = False,
    caller: str = "functions",
    place: str = "pass namespace=… to call() or call_sync()",
) -> list[Function]:
    """Return the abilities as functions, for sync and async code on any event loop.

    ``source`` is an open application, the result of `Abilities.open`, settings (by default those of
    the environment) or your own abilities. An application that is not open yet is opened at the
    first call, and stays open on a background loop until the process ends.

    ``only`` names the functions to load. ``read_only`` leaves out functions that change something.
    With ``require_namespace`` a call without a namespace raises ValueError instead of using that of
    the settings; ``place`` says how to name one. ``caller`` is the name of the calls' author in the
    history, logs and metrics.

    Raises KeyError if a name in ``only`` is not offered, and ValueError if a root must not be
    shared or does not exist, or if the settings name tools that do not exist.
    """
    required = place if require_namespace else None
    host = Host(source, caller, required=required)
    chosen = host.build_registry().only(*(only or ()), read_only=read_only)
    return [
        Function(
            ability.name,
            ability.description,
            build_schema(ability.input, "brief"),
            ability.input,
            ability.read_only,
            host,
        )
        for ability in chosen
    ]


class ToolLoader(Generic[T]):
    """The function ``load_tools`` of a framework.

    ``build`` returns a function as one of the framework's tools. ``caller`` and ``place`` are
    arguments for `load_functions`.
    """

    def __init__(self, build: Callable[[Function], T], *, caller: str, place: str) -> None:
        self._build = build
        self._caller = caller
        self._place = place

    def __call__(
        self,
        source: Source = None,
        *,
        only: Sequence[str] | None = None,
        read_only: bool = False,
        require_namespace: bool = False,
    ) -> list[T]:
        """Return the abilities as tools; arguments and exceptions are those of `load_functions`.

        The module says how a run names its namespace, by default that of the settings.
        """
        functions = load_functions(
            source,
            only=only,
            read_only=read_only,
            require_namespace=require_namespace,
            caller=self._caller,
            place=self._place,
        )
        return [self._build(function) for function in functions]


def _read_arguments(arguments: Mapping[str, Any] | str | None) -> object:
    """Return arguments as a dict if possible. The call refuses any other value."""
    if isinstance(arguments, Mapping):
        return dict(arguments)

    if arguments is None or not arguments.strip():
        return {}

    try:
        return parse_document(arguments.encode())
    except ValueError:
        return arguments


NULL: JsonObject = {"type": "null"}
JSON_TEXT: JsonObject = {"type": "string", "description": "A JSON object."}
"""The strict schema of an object with any fields. Built-in abilities accept its text, too."""


def build_strict_schema(function: Function) -> JsonObject:
    """Return the strict schema of a function's arguments.

    Pass the arguments that a model sends for it through `leave_out_null`.
    """
    brief, full = function.schema, build_schema(function.model)
    fields = {
        name: full["properties"][name] if _has_open_object(field) else field
        for name, field in brief["properties"].items()
    }

    return _make_strict({**brief, "properties": fields, "additionalProperties": False})


def leave_out_null(value: object, schema: JsonObject) -> object:
    """Return arguments without the nulls that replace optional fields in a strict schema.

    >>> field = {"anyOf": [{"type": "integer"}, NULL]}
    >>> leave_out_null({"limit": None}, {"properties": {"limit": field}})
    {}
    """
    for alternative in schema.get("anyOf", []):
        value = leave_out_null(value, alternative)

    if isinstance(value, list):
        items = cast(list[object], value)
        return [leave_out_null(item, schema.get("items", {})) for item in items]

    given = as_object(value)
    if given is None:
        return value

    fields: JsonObject = schema.get("properties", {})
    return {
        name: leave_out_null(item, fields.get(name, {}))
        for name, item in given.items()
        if item is not None or NULL not in fields.get(name, {}).get("anyOf", [])
    }


def _has_open_object(schema: JsonObject) -> bool:
    """Return whether any object in a schema may have fields that are not described."""
    if schema.get("type") == "object":
        if schema.get("additionalProperties", "properties" not in schema):
            return True
        return any(_has_open_object(field) for field in schema["properties"].values())

    inner = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    if "items" in schema:
        inner.append(schema["items"])
    return any(_has_open_object(part) for part in inner)


def _make_strict(schema: JsonObject) -> JsonObject:
    strict = dict(schema)
    if "items" in schema:
        strict["items"] = _make_strict(schema["items"])

    alternatives = schema.get("anyOf", schema.get("oneOf", []))
    if alternatives:
        strict.pop("oneOf", None)
        strict["anyOf"] = [_make_strict(alternative) for alternative in alternatives]

    if schema.get("type") != "object":
        return strict

    if schema.get("additionalProperties", "properties" not in schema):
        return dict(JSON_TEXT)

    required = schema.get("required", [])
    strict["properties"] = {}

    for name, declared in schema["properties"].items():
        inner = _make_strict(declared)
        if name not in required:
            # Descriptions and defaults stay outside of the alternatives, which are not nested.
            outer: JsonObject = {
                key: inner.pop(key) for key in ("description", "default") if key in inner
            }
            options = inner["anyOf"] if list(inner) == ["anyOf"] else [inner]
            inner = {"anyOf": [*options, NULL], **outer}

        strict["properties"][name] = inner

    strict["required"] = list(schema["properties"])
    strict["additionalProperties"] = False
    return strict
