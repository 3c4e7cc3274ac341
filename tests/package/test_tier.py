"""The quick tier: it tries every test that is not thorough, if not each of its cases."""

import pytest

from tests.support.tier import choose_quick_tier


def test_the_quick_tier_tries_every_test_that_is_not_thorough(
    request: pytest.FixtureRequest,
) -> None:
    items = request.session.items

    chosen = choose_quick_tier(items)

    wanted = [item for item in items if not item.get_closest_marker("thorough")]
    assert list_names(chosen) == list_names(wanted)
    assert choose_quick_tier(chosen) == chosen


def list_names(items: list[pytest.Item]) -> set[str]:
    """Return the names of tests without their cases."""
    return {item.nodeid.partition("[")[0] for item in items}
