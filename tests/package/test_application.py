"""An open application and its views: what they share, and what a view may not do."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from abilities import Abilities, AbilityRegistry, Settings, application
from abilities.application import OptionalRoots
from abilities.helpers.files.roots import RootPlace
from abilities.registry import Reply

MEMORY = {"type": "core", "content": "Tea."}


async def pass_on(name: str, call: Callable[[], Awaitable[Reply]]) -> Reply:
    return await call()


async def test_views_share_what_is_open(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        views = [abilities.for_namespace("other"), abilities.with_middleware(pass_on)]

        assert all(view.registry is abilities.registry for view in views)
        assert all(view.problems is abilities.problems for view in views)
        assert views[1].context is abilities.context


async def test_a_view_of_a_reading_view_may_only_read(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        reading = abilities.for_namespace("other", read_only=True)

        for view in (
            reading.for_namespace("other"),
            reading.for_namespace("default"),
            reading.with_middleware(pass_on),
        ):
            reply = await view.reply("store_memory", MEMORY)
            assert reply.payload["error"]["reason"] == "scope"


async def test_objects_say_what_they_hold(roots: Settings) -> None:
    async with Abilities.open(roots) as abilities:
        only = abilities.registry.only("memory_get", "file_list")
        reading = abilities.for_namespace("other", read_only=True)

        assert repr(AbilityRegistry()) == "<AbilityRegistry: empty>"
        assert repr(only) == "<AbilityRegistry: memory_get, file_list>"
        assert repr(abilities) == "<Abilities: 17 in namespace 'default'>"
        assert repr(reading) == "<Abilities: 12 in namespace 'other', read-only>"


def test_roots_that_never_existed_are_forgotten_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "MAX_ROOTS", 10)
    roots = OptionalRoots()
    place = RootPlace("agent", tmp_path, None)
    existed = roots.get(place)
    descriptor = existed.open()
    assert descriptor is not None
    os.close(descriptor)

    places = [place._replace(path=tmp_path / str(number)) for number in range(100)]
    invented = [roots.get(place) for place in places]

    assert roots.get(place) is existed
    assert roots.get(places[-1]) is invented[-1]
    assert roots.get(places[0]) is not invented[0]
    assert len(roots._roots) <= 10
