"""Wrong settings in plain words, each with the place where it was set."""

from collections.abc import Collection
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

from abilities.declarations.suggestions import suggest_value
from abilities.origins import find_origin, read_settings_file, read_variables

_WORDS = {
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text in quotes",
    "path_type": "must be a path in quotes",
    "tuple_type": 'must be a list of names, for example ["recall", "read"]',
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be one of {expected}",
}
"""Our words for pydantic's errors, by their type."""

_OPTIONS = ("host", "port")
"""Names that people try as settings, and that are options of a server."""


class ExplainedSettings(BaseModel):
    """Settings from arguments, else from the environment, else from the settings file.

    Their ValidationError says in plain words what is wrong and where it was set.

    Each of its errors has the place as ``ctx["place"]`` and the sentence as ``ctx["words"]``. What
    was set is left out, because a URL may hold a password.
    """

    def __init__(self, **values: Any) -> None:
        known = type(self).model_fields

        try:
            super().__init__(**{**read_settings_file(), **read_variables(known), **values})
        except ValidationError as error:
            raise explain_error(error, values, known) from None


def explain_error(
    error: ValidationError, arguments: Collection[str], known: Collection[str]
) -> ValidationError:
    """Return the same error in plain words, with the place of each wrong setting.

    ``arguments`` names the settings that were passed, ``known`` those that there are.
    """
    details = [_explain(problem, arguments, known) for problem in error.errors()]
    return ValidationError.from_exception_data(error.title, details, hide_input=True)


def explain_unknown(name: str, known: Collection[str]) -> str:
    """Return what to do about the name of a setting that there is not.

    >>> explain_unknown("workspace", ["workspace_dir", "agent_dir"])
    'is no setting; did you mean workspace_dir?'
    """
    if name in _OPTIONS:
        return f"is no setting; it is an option: abilities serve --{name}"

    suggestion = suggest_value(name, known)
    if suggestion is None:
        return "is no setting; docs/settings.md lists them"

    return f"is no setting; did you mean {suggestion}?"


def _explain(
    problem: ErrorDetails, arguments: Collection[str], known: Collection[str]
) -> InitErrorDetails:
    name = str(problem["loc"][0])
    place = find_origin(name, arguments) or "the default"
    context = {"place": place, "words": _word(problem, known)}
    mistake = PydanticCustomError("wrong_setting", "{words} ({place})", context)

    return InitErrorDetails(type=mistake, loc=problem["loc"], input=None)


def _word(problem: ErrorDetails, known: Collection[str]) -> str:
    if problem["type"] == "extra_forbidden":
        if isinstance(problem["input"], dict):
            return "is no setting; settings stand at the top of the file, without a [heading]"
        return explain_unknown(str(problem["loc"][0]), known)

    words = _WORDS.get(problem["type"])
    if words is not None:
        return words.format(**problem.get("ctx", {}))

    # Pydantic puts its own words before those of our validators.
    return problem["msg"].removeprefix("Value error, ")
