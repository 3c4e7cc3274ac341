"""The history of memories as pure functions: whatever changes are made, each state comes back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from abilities.declarations.refusals import Refused
from abilities.helpers.store.changes import Change, create_row, merge_change
from abilities.helpers.store.history import (
    Entry,
    State,
    describe_before,
    list_changed,
    name_action,
    restore_links,
    rewind,
    rewind_to_time,
    seal,
)
from abilities.helpers.store.model import LinkRow

_texts = st.sampled_from(["a", "b", "ß", "\U0001f9e0"])
_links = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["x", "y", "k"]),
        "link_weight": st.sampled_from([0.1, 0.5]),
        "type": st.sampled_from(["association", "part"]),
    },
    optional={"term": _texts},
)
_changes = st.lists(
    st.tuples(
        st.sampled_from(["store", "update", "archive", "delete"]),
        st.fixed_dictionaries(
            {"content": _texts, "type": st.just("core")},
            optional={
                "summary": _texts,
                "tags": st.lists(_texts, max_size=2),
                "importance": st.sampled_from(["low", "high"]),
                "memory_score": st.sampled_from([0.0, 1.0]),
                "metadata": st.dictionaries(_texts, _texts, max_size=2),
                "expires_at": st.just("2027-01-01T00:00:00.000Z"),
            },
        ),
        st.lists(_links, max_size=2),
        st.lists(_links, max_size=1),
    ),
    max_size=12,
)


@given(_changes)
def test_every_version_comes_back_byte_by_byte(changes: list[Any]) -> None:
    """Each state is found again from the last one by its version and by its time."""
    state = State(None, {})
    entries: list[Entry] = []
    states: list[tuple[int, str, State]] = []

    for number, (kind, fields, links, removed) in enumerate(changes, start=1):
        now = f"2026-01-01T00:00:{number:02}.000Z"
        change = Change(
            kind, now, key="k", new_id="i", fields=fields, links=links, remove_links=removed
        )
        before = state.row
        if kind == "delete":
            after = State(None, {})
        else:
            row = before or create_row(change, "n")
            keys = change.linked_keys
            met = {name: link for name, link in state.links.items() if link.target in keys}
            merged = merge_change(change, row, met)
            kept = {name: link for name, link in state.links.items() if name not in met}
            after = State(merged.row._replace(version=number), {**kept, **merged.links})

        if before is None and after.row is None:
            continue

        described = describe_before(before, after.row, state.links, after.links)
        action = name_action(change, before, after.row)
        previous = before.version if before else 0
        entries.insert(0, seal(Entry("n", number, "i", "k", previous, action, now, "", described)))
        state = after
        states.append((number, now, state))

    for version, time, wanted in states:
        if wanted.row is None:
            with pytest.raises(Refused):
                rewind(state, entries, version)
            continue

        assert rewind(state, entries, version) == wanted
        assert rewind_to_time(state, entries, time) == wanted


def test_an_entry_names_what_it_changed() -> None:
    """A created memory changed nothing; the score counts once."""
    change = Change("store", "t", key="k", new_id="i", fields={"type": "core", "content": "c"})
    row = merge_change(change, create_row(change, "n"), {}).row
    scored = row._replace(score=0.1, scored=1, summary="s", updated_at="u")
    link = LinkRow("k", "x", "association", 0.5)

    created = Entry("n", 1, "i", "k", 0, "created", "t", "", describe_before(None, row, {}, {}))
    changed = created._replace(
        before=describe_before(row, scored, {}, {("x", "association"): link})
    )

    assert list_changed(created) == []
    assert list_changed(changed) == ["memory_score", "summary", "links"]


@pytest.mark.parametrize("weights", [(0.5, 0.1), (0.1, 0.5), (0.5, 0.5)])
@pytest.mark.parametrize("is_reversed", [False, True])
def test_links_that_become_one_in_a_restored_memory_do_so_as_in_a_rename(
    weights: tuple[float, float], is_reversed: bool
) -> None:
    """Whatever the order of the links, the heavier one stays, or the first by its target."""
    change = Change("store", "t", key="old", new_id="i", fields={"type": "core", "content": "c"})
    row = merge_change(change, create_row(change, "n"), {}).row
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
    after = merge_change(change, row, {}).row

    assert (after.key, after.archived) == ("l", 1)
    assert name_action(change, row, after) == "renamed"
