"""The history of memories as pure functions: what a store does only now and then."""

import pytest

from abilities.helpers.store.changes import Change, create_row, merge_change
from abilities.helpers.store.history import State, name_action, restore_links
from abilities.helpers.store.model import LinkRow


@pytest.mark.parametrize("weights", [(0.5, 0.1), (0.1, 0.5), (0.5, 0.5)])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_links_that_become_one_in_a_restored_memory_do_so_as_in_a_rename(
    weights: tuple[float, float], is_reversed: bool
) -> None:
    """Whatever the order of the links, the heavier one stays, or the first by its target."""
    change = Change("store", "t", key="old", new_id="i", fields={"type": "core", "content": "c"})
    row = merge_change(change, create_row(change, "n"), []).row
    to_new, to_itself = weights
    links = [
        LinkRow("old", "new", "association", to_new, "to new"),
        LinkRow("old", "old", "association", to_itself, "to itself"),
    ]
    if is_reversed:
        links.reverse()
    state = State(row, {(link.target, link.type): link for link in links})

    restored = restore_links(Change("restore", "t"), row._replace(key="new"), state)

    heavier = LinkRow("new", "new", "association", to_new, "to new")
    if to_itself > to_new:
        heavier = LinkRow("new", "new", "association", to_itself, "to itself")
    assert restored == {("new", "association"): heavier}


def test_a_change_that_renames_is_found_by_the_former_key() -> None:
    """Whatever else it does: the index of former keys holds what was deleted or renamed."""
    change = Change("update", "t", key="k", new_key="l", fields={"archived": True})
    row = create_row(Change("store", "t", key="k", new_id="i"), "n")
    after = merge_change(change, row, []).row

    assert (after.key, after.archived) == ("l", 1)
    assert name_action(change, row, after) == "renamed"
