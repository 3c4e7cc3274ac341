"""What tests do again and again, and what gives the same each time: it is done once per run."""

import json
from collections.abc import Callable
from functools import cache
from importlib import metadata
from typing import Any

from fastapi import FastAPI
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]
from starlette.routing import BaseRoute

from abilities.registry import AbilityRegistry

_check_schema = Draft202012Validator.check_schema
_checked: set[str] = set()


class RememberedRoutes:
    """Adds routes to an application as a function does; for the same arguments, the same ones.

    The endpoints find what they serve in each request. FastAPI takes longer to make their routes
    than most calls take.
    """

    def __init__(self, add: Callable[..., None]) -> None:
        self._add = add
        self._known: dict[tuple[object, ...], list[BaseRoute]] = {}

    def __call__(self, app: FastAPI, *arguments: object) -> None:
        key = tuple(tuple(a) if isinstance(a, AbilityRegistry) else a for a in arguments)
        known = self._known.get(key)
        if known is not None:
            app.router.routes.extend(known)
            return
        before = len(app.router.routes)
        self._add(app, *arguments)
        self._known[key] = app.router.routes[before:]


def check_schema(schema: Any, **options: Any) -> None:
    """Check a schema as jsonschema does, unless the same one was found valid before.

    Each client of MCP checks the schemas of the answers that it gets.
    """
    text = json.dumps(schema, sort_keys=True)
    if text not in _checked or options:
        _check_schema(schema, **options)
        _checked.add(text)


find_version = cache(metadata.version)
