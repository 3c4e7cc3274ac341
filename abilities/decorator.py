"""The decorator that turns a typed function into an ability: `ability`."""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import Annotated, Any, get_args, get_origin, get_type_hints, overload

from pydantic import BaseModel, PydanticUserError, RootModel, TypeAdapter, create_model

from abilities.declarations.fields import Arguments, Array, Boolean, Integer, Number, Object
from abilities.declarations.values import Model
from abilities.definition import Ability, Context, Run, is_model, validate_answer

Function = Callable[..., Awaitable[Any]]

_LENIENT = {int: Integer, float: Number, bool: Boolean, list: Array, dict: Object}
"""Annotations that accept common mistakes of clients, such as a number sent as a string."""

_RULE = (
    "an ability is an async function whose parameters and result have types: "
    "'async def word_count(context: Context, paths: list[str]) -> dict[str, int]'; "
    "{name} {mistake}"
)


@overload
def ability(function: Function, /) -> Ability: ...


@overload
def ability(
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    resource: str | None = None,
) -> Callable[[Function], Ability]: ...


def ability(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    title: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    idempotent: bool = False,
    destructive: bool = False,
    resource: str | None = None,
) -> Ability | Callable[[Function], Ability]:
    """Turn an async function into an `Ability`; used with or without parentheses.

    The function's parameters are the ability's arguments, described by their types and
    ``Annotated[..., Field()]``. A parameter of the type `Context` receives the context. A pydantic
    model as the only other parameter has all arguments as its fields. A result other than an object
    is answered as ``{"result": ...}``.

    By default, the name is the function's, the title is the name in words, and the description is
    the function's docstring.

    Raises TypeError if the function is not async or lacks types, and ValueError as `Ability` does.
    """

    def make_ability(function: Function) -> Ability:
        input_model, answer_model, run = _read_signature(function)
        chosen_name = name or function.__name__

        return Ability(
            name=chosen_name,
            title=title or chosen_name.replace("_", " ").capitalize(),
            description=description or inspect.getdoc(function) or "",
            input=input_model,
            answer=answer_model,
            run=run,
            read_only=read_only,
            idempotent=idempotent,
            destructive=destructive,
            resource=resource,
        )

    if function is None:
        return make_ability

    return make_ability(function)


def _read_signature(function: Function) -> tuple[type[BaseModel], type[BaseModel], Run]:
    """Return the models of a function's arguments and answers, and the ability's ``run``."""
    if not inspect.iscoroutinefunction(function):
        raise _refuse(function, "is not async")

    hints = get_type_hints(function, include_extras=True)  # resolves annotations that are strings
    if "return" not in hints:
        raise _refuse(function, "has no type for its result")

    result = hints.pop("return")
    parameters = inspect.signature(function).parameters
    types = list(hints.values())
    if len(parameters) == 2 and len(types) == 2 and is_model(types[1]):
        if not is_model(result):
            raise _refuse(function, "takes a model, so its result must be one too")

        return types[1], result, function

    arguments = [name for name in parameters if hints.get(name) is not Context]
    contexts = [name for name in parameters if name not in arguments]
    fields: dict[str, Any] = {}
    for name in arguments:
        fields[name] = _read_field(function, parameters[name], hints)

    model: type[BaseModel] = create_model(
        f"{function.__name__}_arguments", __base__=Arguments, **fields
    )
    answer, build = _read_result(function, result)

    @wraps(function)
    async def run(context: Context, given: BaseModel) -> BaseModel:
        values = {name: getattr(given, name) for name in arguments}
        values.update(dict.fromkeys(contexts, context))
        return build(await function(**values))

    return model, answer, run


def _read_field(
    function: Function, parameter: inspect.Parameter, hints: dict[str, Any]
) -> tuple[Any, Any]:
    """Return the type and the default of a parameter, as a field of a model."""
    name = parameter.name
    if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
        raise _refuse(function, f"has a parameter that cannot be given by name: {name}")
    if name not in hints:
        raise _refuse(function, f"has no type for {name}")

    hint = hints[name]
    plain = hint.__origin__ if get_origin(hint) is Annotated else hint
    lenient = _LENIENT.get(get_origin(plain) or plain)
    if lenient is not None:
        hint = Annotated[hint, lenient]

    default = ... if parameter.default is parameter.empty else parameter.default
    return hint, default


def _read_result(
    function: Function, result: Any
) -> tuple[type[BaseModel], Callable[[Any], BaseModel]]:
    """Return the model of a function's answers, and a function that builds one of its result."""
    if is_model(result):
        return result, lambda value: value

    try:
        schema = TypeAdapter(result).json_schema(mode="serialization")
    except PydanticUserError as error:
        raise _refuse(function, f"has a result that cannot be sent: {error.message}") from None

    name = f"{function.__name__}_answer"
    if schema.get("type") == "object":
        model: type[BaseModel] = type(name, (RootModel[result],), {})
        return model, partial(validate_answer, model)

    default = None if type(None) in (result, *get_args(result)) else ...
    model = create_model(name, __base__=Model, result=(result, default))
    return model, lambda value: validate_answer(model, {"result": value})


def _refuse(function: Function, mistake: str) -> TypeError:
    return TypeError(_RULE.format(name=getattr(function, "__name__", "it"), mistake=mistake))
