"""The decorator that makes an ability of a typed function: `ability`."""

import inspect
from collections.abc import Awaitable, Callable
from functools import partial, wraps
from typing import (
    Annotated,
    Any,
    NamedTuple,
    TypeGuard,
    get_args,
    get_origin,
    get_type_hints,
    overload,
)

from pydantic import BaseModel, PydanticUserError, RootModel, TypeAdapter, create_model

from abilities.declarations.fields import Arguments, Array, Boolean, Integer, Number, Object
from abilities.declarations.values import Model
from abilities.definition import Ability, Context, Run
from abilities.schemas import validate_answer

Function = Callable[..., Awaitable[Any]]

_LENIENT = {int: Integer, float: Number, bool: Boolean, list: Array, dict: Object}
"""What accepts the common mistakes of clients, such as a number that is sent as a string."""

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
    """Make an Ability of an async function; with or without parentheses.

    Its parameters are the arguments, as their types and ``Annotated[..., Field()]`` say; the one of
    the type `Context` is given the context. A single parameter beside it that is a pydantic model
    stands for all arguments. A result that is no object is answered as ``{"result": ...}``.

    By default the name is the function's, the title is made of the name, and the description is the
    function's docstring.

    Raises TypeError if the function is not async or lacks types, and ValueError as `Ability` does.
    """

    def make_ability(function: Function) -> Ability:
        signature = _read_signature(function)
        chosen_name = name or function.__name__

        return Ability(
            name=chosen_name,
            title=title or chosen_name.replace("_", " ").capitalize(),
            description=description or inspect.getdoc(function) or "",
            input=signature.input,
            answer=signature.answer,
            run=signature.run,
            read_only=read_only,
            idempotent=idempotent,
            destructive=destructive,
            resource=resource,
        )

    if function is None:
        return make_ability

    return make_ability(function)


class _Signature(NamedTuple):
    """What a function takes and answers, and how it is run with those."""

    input: type[BaseModel]
    answer: type[BaseModel]
    run: Run


def _read_signature(function: Function) -> _Signature:
    if not inspect.iscoroutinefunction(function):
        raise _refuse(function, "is not async")

    hints = get_type_hints(function, include_extras=True)  # resolves annotations that are strings
    if "return" not in hints:
        raise _refuse(function, "has no type for its result")

    result = hints.pop("return")
    parameters = inspect.signature(function).parameters
    if len(parameters) == 2 and len(hints) == 2 and _is_model(list(hints.values())[1]):
        if not _is_model(result):
            raise _refuse(function, "takes a model, so its result must be one too")

        return _Signature(list(hints.values())[1], result, function)

    arguments = [name for name in parameters if hints.get(name) is not Context]
    contexts = [name for name in parameters if name not in arguments]
    fields: dict[str, Any] = {
        name: _read_field(function, parameters[name], hints) for name in arguments
    }
    model: type[BaseModel] = create_model(
        f"{function.__name__}_arguments", __base__=Arguments, **fields
    )
    answer, build = _read_result(function, result)

    @wraps(function)
    async def run(context: Context, given: BaseModel) -> BaseModel:
        values = {name: getattr(given, name) for name in arguments}
        values.update(dict.fromkeys(contexts, context))
        return build(await function(**values))

    return _Signature(model, answer, run)


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
    """Return the model of a function's answers, and what makes its result one."""
    if _is_model(result):
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


def _is_model(hint: object) -> TypeGuard[type[BaseModel]]:
    return isinstance(hint, type) and issubclass(hint, BaseModel)
