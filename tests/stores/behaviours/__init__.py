"""The contract of a memory store, executable against any store.

Each behaviour is an async function that is given an empty store. It raises AssertionError, with the
rule that was broken, the expected value and the actual one, or returns. `check` runs them, each on
a store of its own::

    async def test_my_store_behaves():
        await check(lambda: open_my_store())

The function that opens an empty store returns an async context manager. The behaviours are grouped
by the powers of a store, so that one without all powers is checked for those it has::

    await check(open_my_store, MEMORY_BEHAVIOURS)
    await check(open_my_store, (*MEMORY_BEHAVIOURS, *TRANSFER_BEHAVIOURS))

Behaviours can be run one by one too, for example as the parameters of a test.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from abilities.helpers.store import protocol
from tests.stores.behaviours import about, core, history, links, powers, recall
from tests.stores.behaviours.steps import NAMESPACE, put

__all__ = [
    "ABOUT_BEHAVIOURS",
    "BEHAVIOURS",
    "CHECK_BEHAVIOURS",
    "HISTORY_BEHAVIOURS",
    "MARK_BEHAVIOURS",
    "MEMORY_BEHAVIOURS",
    "NAMESPACE",
    "RECALL_BEHAVIOURS",
    "SEARCH_BEHAVIOURS",
    "TRANSFER_BEHAVIOURS",
    "check",
    "put",
]

Store = TypeVar("Store", bound=protocol.MemoryStore)
Open = Callable[[], AbstractAsyncContextManager[Store]]
Behaviour = Callable[[Store], Awaitable[None]]

SEARCH_BEHAVIOURS: tuple[Behaviour[protocol.MemoryStore], ...] = (
    core.a_search_looks_into_every_text,
    core.a_phrase_in_quotes_is_found_as_it_stands,
    core.a_search_follows_every_change,
)
"""What the search of every `MemoryStore` must do."""

RECALL_BEHAVIOURS: tuple[Behaviour[protocol.MemoryStore], ...] = (
    recall.a_memory_is_recalled_as_soon_as_it_is_stored,
    recall.a_recall_follows_every_change,
    recall.a_recall_follows_links_of_any_weight,
    recall.a_recall_passes_what_its_filters_pass,
    recall.a_recall_explains_a_memory_that_filters_keep_out,
    recall.a_long_memory_answers_with_one_passage,
    recall.a_recall_follows_links,
    recall.a_recall_adds_what_is_similar,
    recall.another_namespace_changes_no_recall,
    recall.questions_share_what_they_find,
    recall.a_recall_of_a_day_finds_what_was_replaced_later,
    recall.a_content_leads_to_those_with_its_rare_words,
)
"""What `recall` of every `MemoryStore` must do."""

MEMORY_BEHAVIOURS: tuple[Behaviour[protocol.MemoryStore], ...] = (
    core.a_memory_is_read_as_it_was_written,
    core.reads_keep_order_and_duplicates,
    core.storing_again_merges,
    core.an_id_names_one_memory,
    links.links_are_ranked_by_weight_times_score,
    links.links_keep_their_terms,
    links.backlinks_come_best_first_in_pages,
    links.a_change_moves_the_ranks_at_both_ends,
    links.link_totals_follow_every_change,
    links.a_walk_visits_each_memory_once_on_its_shortest_way,
    links.a_walk_follows_links_backwards,
    links.a_walk_in_both_directions_takes_the_best_links,
    core.a_renamed_memory_keeps_what_it_has,
    core.a_renamed_memory_takes_the_links_to_its_new_key,
    core.a_store_says_which_version_it_replaced,
    core.a_replaced_memory_names_its_replacement,
    core.memories_are_listed_by_key_in_pages,
    core.a_memory_past_its_end_reads_as_archived,
    core.a_change_finds_its_memory_ended_however_many_others_are,
    core.queries_filter_sort_search_and_page,
    *SEARCH_BEHAVIOURS,
    *RECALL_BEHAVIOURS,
    core.statistics_follow_every_change,
    core.namespaces_are_isolated,
    core.concurrent_changes_are_all_made,
)
"""What every `MemoryStore` must do."""

TRANSFER_BEHAVIOURS: tuple[Behaviour[protocol.TransferableStore], ...] = (
    powers.pages_hold_whole_memories_in_order,
    powers.importing_the_same_again_changes_nothing,
    powers.an_import_replaces_only_if_asked,
    powers.an_import_refuses_an_id_of_another_key,
    powers.an_import_gives_versions_of_this_store,
)
"""What a `TransferableStore` must do besides."""

HISTORY_BEHAVIOURS: tuple[Behaviour[protocol.HistoryStore], ...] = (
    history.a_restored_version_is_a_new_one,
    history.undoing_a_replacement_restores_both,
    history.a_deleted_memory_comes_back,
    history.a_deleted_memory_can_be_purged,
    history.the_latest_changes_come_first,
    history.what_is_purged_is_gone_for_good,
    history.what_is_too_old_is_forgotten,
    history.entries_are_read_in_pages,
)
"""What a `HistoryStore` must do besides."""

ABOUT_BEHAVIOURS: tuple[Behaviour[protocol.ServableStore], ...] = (
    about.the_closest_memories_about_a_file_come_first,
    about.equally_close_memories_come_by_importance_and_age,
    about.memories_about_files_follow_every_change,
    about.queries_and_recalls_are_limited_to_a_file,
    about.a_lookup_is_bounded,
)
"""What a store that knows which memories are about a file must do besides."""

CHECK_BEHAVIOURS: tuple[Behaviour[protocol.CheckableStore], ...] = (
    powers.a_healthy_store_is_sound,
)
"""What a `CheckableStore` must do besides."""

MARK_BEHAVIOURS: tuple[Behaviour[protocol.MarkableStore], ...] = (
    powers.a_mark_is_set_once_and_for_good,
)
"""What a `MarkableStore` must do besides."""

BEHAVIOURS: tuple[Behaviour[protocol.ServableStore], ...] = (
    *MEMORY_BEHAVIOURS,
    *TRANSFER_BEHAVIOURS,
    *HISTORY_BEHAVIOURS,
    *ABOUT_BEHAVIOURS,
    *CHECK_BEHAVIOURS,
    *MARK_BEHAVIOURS,
    powers.accesses_before_a_rename_are_kept,
    history.any_changes_are_remembered_as_a_model_remembers_them,
    history.no_import_brings_back_what_was_purged,
    history.a_past_of_links_alone_is_imported,
    history.an_import_can_be_undone,
)
"""What a `ServableStore`, which has all powers, must do."""


async def check(
    open_store: Open[Any], behaviours: Sequence[Behaviour[Any]] = BEHAVIOURS
) -> list[str]:
    """Run each behavior on a store of its own, by default all behaviours; return their names.

    Raises AssertionError at the first behavior that the store does not show.
    """
    for behaviour in behaviours:
        async with open_store() as store:
            await behaviour(store)

    return [behaviour.__name__ for behaviour in behaviours]
