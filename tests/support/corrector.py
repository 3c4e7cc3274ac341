"""A corrector of wrong calls that knows nothing but the call and what was answered to it.

It stands for a model that reads a fault: general rules, no schema, no table of names. It mends what
the answer explains, and gives up on what it does not.
"""

import copy
import json
import re
from collections.abc import Callable
from datetime import datetime
from difflib import get_close_matches
from typing import Any, NamedTuple

Rule = dict[str, Any]
Step = str | int


class Call(NamedTuple):
    name: str
    arguments: dict[str, Any]


class Unmendable(Exception):
    """The answer does not say how to mend the call."""


def mend_call(call: Call, answer: dict[str, Any]) -> Call:
    """Return the call mended by a fault, or by the faults of its items. Raises Unmendable."""
    if "error" not in answer:
        for record in answer["results"]:
            meant = find_meant(record)
            another = re.fullmatch(r"([a-z_]+) (\{.*\})", meant or "")
            if another is not None:
                return Call(another[1], json.loads(another[2]))
        return Call(call.name, _mend_items(call.arguments, answer["results"]))

    fault = answer["error"]
    if fault["reason"] == "unknown_ability":
        if "did_you_mean" not in fault:
            raise Unmendable("no name is suggested")
        return Call(fault["did_you_mean"], call.arguments)
    if "field" not in fault and "did_you_mean" in fault and "key" in call.arguments:
        return Call(call.name, {**call.arguments, "key": fault["did_you_mean"]})
    return Call(call.name, mend_arguments(call.arguments, fault.get("fields", [fault])))


def find_meant(record: Rule) -> str | None:
    """Return what the record of an item says to send instead of its value, if it does."""
    told: Rule = record["error"] if "error" in record else record.get("data", {})
    return None if "field" in told else told.get("did_you_mean")


def mend_arguments(arguments: dict[str, Any], mistakes: list[Rule]) -> dict[str, Any]:
    mended = copy.deepcopy(arguments)
    # Names first: a value can only be mended where it belongs.
    for mistake in sorted(mistakes, key=lambda mistake: mistake["reason"] != "unknown_argument"):
        _mend(mended, mistake)
    return mended


def _mend_items(arguments: dict[str, Any], records: list[Rule]) -> dict[str, Any]:
    mended = copy.deepcopy(arguments)
    (name,) = [name for name, value in mended.items() if isinstance(value, list)]

    for position, record in enumerate(records):
        fault = record.get("error", {})
        meant = find_meant(record)
        if meant is not None:
            mended[name][position] = _put_meant(mended[name][position], meant)
        elif fault.get("code") == "INVALID_INPUT":
            mended[name][position] = _mend_item(mended[name][position], fault)
    return mended


def _put_meant(item: Any, meant: str) -> Any:
    if meant.startswith("{"):
        return json.loads(meant)
    if not isinstance(item, dict):
        return meant
    for name in ("file", "memory", "key"):
        if name in item:
            return {**item, name: meant}
    raise Unmendable("nothing in the item is a name")


def _mend_item(item: Any, fault: Rule) -> Any:
    if "field" not in fault:
        raise Unmendable("the fault says nothing about the item")
    # One word in place of an object is a value of the field that the fault is about.
    if not isinstance(item, dict):
        item = {fault["field"]: item}
    return mend_arguments(item, [fault])


def _mend(arguments: dict[str, Any], mistake: Rule) -> None:
    reason = mistake["reason"]
    rule = mistake.get("expected", {})

    if "field" not in mistake:
        for name in arguments.keys() - set(rule.get("one_of", arguments)):
            del arguments[name]
        return

    path = _parse_field(mistake["field"])
    holder: Any = arguments
    for step in path[:-1]:
        holder = holder[step]
    last = path[-1]

    if reason == "unknown_argument":
        value = holder.pop(last)
        if "did_you_mean" in mistake:
            holder[mistake["did_you_mean"]] = fit_value(value, rule)
    elif reason in ("repeated_argument", "date_not_allowed"):
        del holder[last]
    elif reason == "missing_argument":
        holder[last] = _find_misnamed(holder, rule) or _invent(rule)
    else:
        _replace(holder, last, rule, mistake)


def _replace(holder: Any, last: Step, rule: Rule, mistake: Rule) -> None:
    value = holder[last]
    if "did_you_mean" in mistake:
        holder[last] = mistake["did_you_mean"]
        return
    # An empty text says nothing, and is as good as left out.
    if value == "" and isinstance(holder, dict):
        del holder[last]
        return
    holder[last] = fit_value(value, rule)


def _find_misnamed(holder: dict[str, Any], rule: Rule) -> Any:
    if len(holder) != 1:
        return None
    ((name, value),) = holder.items()
    # Anything can be put into a list; other types must be right.
    if not isinstance(value, _PYTHON_TYPES.get(rule.get("type", ""), ())):
        return None
    del holder[name]
    return fit_value(value, rule)


_PYTHON_TYPES: dict[str, type] = {"string": str, "array": object, "object": dict}


def _invent(rule: Rule) -> Any:
    """Return a value for a missing argument, if the rule leaves no doubt that one would do."""
    if "one_of" in rule:
        return rule["one_of"][0]
    if "minimum" in rule:
        return rule["minimum"]
    raise Unmendable("only the caller knows what is missing")


def fit_value(value: Any, rule: Rule) -> Any:
    """Return the value that keeps a rule and is nearest to another. Raises Unmendable."""
    if "one_of" in rule:
        return _choose(value, rule["one_of"])
    fit = _FITS.get(rule.get("type") or _guess_type(value, rule))
    return value if fit is None else fit(value, rule)


def _guess_type(value: Any, rule: Rule) -> str | None:
    if "minimum" in rule or "maximum" in rule:
        return "number"
    if "max_items" in rule or "min_items" in rule:
        return "array"
    if "max_bytes" in rule:
        return "array" if isinstance(value, list) else None
    if {"max_length", "min_length", "format", "pattern"} & rule.keys():
        return "string"
    return None


def _choose(value: Any, choices: list[Any]) -> Any:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    by_text = {str(choice).lower(): choice for choice in choices}
    (nearest,) = get_close_matches(str(value).lower(), by_text, n=1, cutoff=0)
    return by_text[nearest]


def _fit_number(value: Any, rule: Rule) -> float | int:
    number = _parse_number(value)
    if rule.get("type") == "integer":
        number = round(number)
    lowest: float | int = rule.get("minimum", number)
    highest: float | int = rule.get("maximum", number)
    return max(lowest, min(highest, number))


_WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
_WORDS += ["eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"]
_WORDS += ["eighteen", "nineteen", "twenty"]


def _parse_number(value: Any) -> float | int:
    if isinstance(value, bool | int | float):
        return value if isinstance(value, float) else int(value)
    text = str(value).strip().lower()
    if text in _WORDS:
        return _WORDS.index(text)
    digits = re.search(r"-?\d+(\.\d+)?", text.replace(",", ""))
    if digits is None:
        raise Unmendable("no number is in it")
    return float(digits[0]) if "." in digits[0] else int(digits[0])


def _fit_boolean(value: Any, _: Rule) -> bool:
    return str(value).lower() in ("true", "yes", "on", "1", "y")


def _fit_string(value: Any, rule: Rule) -> str:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    text = str(value).strip()
    text = "".join(c for c in text if c.isprintable() or c in "\t\n")
    if "pattern" in rule:
        text = _fit_pattern(text, rule["pattern"])
    if re.fullmatch("[YMD-]+", rule.get("format", "")):
        text = _fit_date(text)
    return text[: rule.get("max_length")]


def _fit_pattern(text: str, pattern: str) -> str:
    """Return the part of a text, or of its lower case, that matches a pattern."""
    for candidate in (text, text.lower()):
        match = re.search(pattern.removeprefix("^").removesuffix("$"), candidate)
        if match is not None:
            return match[0]
    raise Unmendable("nothing in it has this form")


def _fit_date(text: str) -> str:
    for form in ("%Y-%m-%d", "%B %d, %Y", "%d %B %Y", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y"):
        try:
            return datetime.strptime(text, form).date().isoformat()
        except ValueError:
            continue
    raise Unmendable("no date is in it")


def _fit_array(value: Any, rule: Rule) -> list[Any]:
    items = value if isinstance(value, list) else _split(value)
    if "items" in rule:
        items = [fit_value(item, rule["items"]) for item in items]
    while "max_bytes" in rule and len(json.dumps(items)) > rule["max_bytes"]:
        items = items[:-1]
    if len(items) < rule.get("min_items", 0):
        raise Unmendable("only the caller knows the items")
    return items[: rule.get("max_items")]


def _split(value: Any) -> list[Any]:
    if isinstance(value, str) and re.search(r"[,\n]", value):
        return [part.strip() for part in re.split(r"[,\n]", value)]
    return [value]


def _fit_object(value: Any, rule: Rule) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    # A single value in place of an object is that of its only required field.
    required: dict[str, Rule] = rule.get("required", {})
    if len(required) != 1:
        raise Unmendable("it is no object")
    ((name, inner),) = required.items()
    return {name: fit_value(value, inner)}


_FITS: dict[str | None, Callable[[Any, Rule], Any]] = {
    "integer": _fit_number,
    "number": _fit_number,
    "boolean": _fit_boolean,
    "string": _fit_string,
    "array": _fit_array,
    "object": _fit_object,
}


def _parse_field(field: str) -> list[Step]:
    """Return the steps of a field: ``links[2].key`` is ``["links", 2, "key"]``."""
    steps = re.findall(r"[^.\[\]]+", field)
    return [int(step) if step.isdigit() else step for step in steps]
