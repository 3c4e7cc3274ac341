"""Behaviors of `recall` of every store, for `tests.stores.behaviours`."""

from collections.abc import Sequence
from dataclasses import replace

from abilities.helpers.search.meaning import Similarity
from abilities.helpers.search.ranking import Ranking
from abilities.helpers.search.recall import Filters, RecallRequest
from abilities.helpers.search.terms import split_question
from abilities.helpers.store.protocol import MemoryStore, Recalled
from tests.stores.behaviours.steps import (
    LATER,
    NAMESPACE,
    OTHER_NAMESPACE,
    TIME,
    end,
    expect,
    plan,
    put,
)

_ROOM = 1 << 20
"""Bytes of contents, more than all memories of a behavior have."""


async def a_recall_explains_a_memory_that_filters_keep_out(store: MemoryStore) -> None:
    """Each filter that the memory does not pass is named, and its words are weighed."""
    await put(store, "a", content="tulip", type="task", tags=["t"])
    await put(store, "b", content="rose")
    filters = Filters(type="core", tags=("t",), importance="high", changed_since=LATER)

    for key, failing, weighs in (
        ("a", ("type", "importance", "changed_since"), True),
        ("b", ("tags", "importance", "changed_since"), False),
        ("c", (), False),
    ):
        terms = split_question("tulip", await store.read_language())
        request = RecallRequest((terms,), filters, explained=key)
        (ranking,) = (await store.recall(NAMESPACE, request, _ROOM, [0])).rankings
        if ranking.explainer is None:
            raise AssertionError("a ranking can be explained; got None")

        expect(tuple(ranking.explainer.failing), failing, f"the filters that keep {key} out")
        (share,) = ranking.explainer.explain(key).words
        expect(share.weight > 0, weighs, f"the words of {key} are weighed")


async def a_long_memory_answers_with_one_passage(store: MemoryStore) -> None:
    """Words that are far from each other in a long content are no answer, all together are."""
    question = "tulip rose lily daisy poppy aster"
    sections = [f"# {word}\n\n{'x ' * 400}" for word in question.split()]
    await put(store, "long", content="\n".join(sections))
    ranking = await _recall_one(store, question)
    expect((ranking.confidence, ranking.entries), ("none", ()), "no passage has enough words")

    await put(store, "labeled", content="\n".join(sections), summary="daisy", tags=["aster"])
    ranking = await _recall_one(store, question)
    expect(ranking.confidence, "weak", "the summary and the tags belong to each passage")

    await put(store, "long", content="\n".join([*sections, question]))
    for number in range(6):
        await put(store, f"rival {number}", content="tulip tulip rose")
    ranking = await _recall_one(store, question)
    expect(ranking.confidence, "strong", "a passage has all the words")


async def a_recall_follows_links_of_any_weight(store: MemoryStore) -> None:
    """The least weight times the least score is no float any more; such a link gives nothing."""
    least = 5e-324
    await put(store, "b", content="lily", memory_score=least)
    await put(store, "a", content="tulip", links=[("b", least)])

    for filters in (Filters(), Filters(archived=True)):
        await _expect_recall(store, "tulip", ["a"], filters)


async def another_namespace_changes_no_recall(store: MemoryStore) -> None:
    """Neither what is found nor a score depends on the memories of other namespaces."""
    await put(store, "a", content="tulip rose", links=[("b", 0.5)])
    await put(store, "b", content="rose")
    before = await _recall(store, ["tulip rose"])

    contents = {f"k{number}": "tulip rose lily" for number in range(5)}
    for key, content in {**contents, "a": "tulip tulip tulip"}.items():
        change = plan("store", key, fields={"type": "core", "content": content})
        await store.change(OTHER_NAMESPACE, change)

    after = await _recall(store, ["tulip rose"])
    expect(after, before, "a recall is the same whatever other namespaces hold")
    await _expect_recall(store, "lily", [])


async def a_recall_adds_what_is_similar(store: MemoryStore) -> None:
    """Memories that are similar to a question answer it, if they pass the filters."""
    await put(store, "hit", content="tulip")
    await put(store, "near", content="x", type="task", links=[("far", 1.0)])
    await put(store, "far", content="x")
    await put(store, "gone", content="x")
    await end(store, "archive", "gone")

    memories = [("missing", 950_000), ("gone", 920_000), ("near", 900_000), ("far", 100_000)]
    similarity = Similarity(memories, {"note": 600_000}, 100_000)
    for filters, keys in (
        (Filters(), ["near", "note"]),
        (Filters(type="task"), ["near", "note"]),
        (Filters(archived=True), ["gone", "near", "note"]),
        (Filters(type="learning"), ["note"]),
        (Filters(changed_since=LATER), ["note"]),
    ):
        ranking = await _recall_one(store, "lily", filters, similarity=similarity)
        expect(_list_names(ranking), keys, f"{filters} hold for what is similar")
        expect(ranking.confidence, "weak", "what words do not confirm is no strong answer")

    ranking = await _recall_one(store, "tulip", similarity=similarity)
    expect(_list_names(ranking), ["hit", "near", "note"], "what has the words stands first")
    ranking = await _recall_one(store, "lily", similarity=similarity._replace(usual=900_000))
    expect(_list_names(ranking), [], "what is hardly more similar than others answers nothing")


async def a_recall_of_a_day_finds_what_was_replaced_later(store: MemoryStore) -> None:
    """What was created later is not found; what is archived is, if it was replaced later."""
    await put(store, "old", content="tulip", links=[("near", 1.0)])
    await put(store, "near", content="x", links=[("old", 1.0)])
    await put(store, "gone", content="tulip")
    await end(store, "archive", "gone")
    fields = {"content": "tulip rose"}
    await store.change(NAMESPACE, plan("supersede", "old", new_key="new", fields=fields, now=LATER))

    for filters, keys in (
        (Filters(), ["new"]),
        (Filters(archived=True), ["gone", "near", "new", "old"]),
        (Filters(as_of="2025-12-31"), []),
        (Filters(as_of=TIME[:10]), ["near", "old"]),
        (Filters(as_of=TIME[:10], archived=True), ["gone", "near", "old"]),
        (Filters(as_of=LATER[:10]), ["new"]),
    ):
        await _expect_recall(store, "tulip", keys, filters)

    recalled = await _recall(store, ["tulip"], Filters(archived=True))
    shown = {key: (one.replaced_by, one.since) for key, one in recalled.memories.items()}  # type: ignore[union-attr]
    expect(shown["old"], ("new", ""), "what was replaced names its replacement")
    expect(shown["new"], ("", LATER[:10]), "what replaces another one tells since when")
    expect(shown["gone"], ("", ""), "what is merely archived names nothing")


async def a_content_leads_to_those_that_say_nearly_the_same(store: MemoryStore) -> None:
    """Memories that share the most rare words come first; archived and other ones never do."""
    await put(store, "own", content="Ada moved from Lisbon to Porto in the common spring")
    await put(store, "twin", content="In spring the common Ada has moved to Porto")
    await put(store, "near", content="Ada moved from Lisbon to Porto in the common autumn")
    await put(store, "far", content="the common spring")
    await put(store, "gone", content="Ada moved from Lisbon to Porto in the common spring")
    await end(store, "archive", "gone")
    for number in range(30):
        await put(store, f"k{number}", content=f"a common thing {number}")

    contents = {
        "own": "Ada moved from Lisbon to Porto in the common spring",
        "far": "the common spring",
        "other": "nothing",
    }
    found = await store.find_alike(NAMESPACE, contents, await store.read_language())
    keys = {key: [memory.row.key for memory in memories] for key, memories in found.items()}
    expect(keys, {"own": ["twin", "near"]}, "present memories that are alike, the most first")


async def _recall(
    store: MemoryStore,
    questions: Sequence[str],
    filters: Filters | None = None,
    hops: int = 2,
    similarity: Similarity | None = None,
) -> Recalled:
    language = await store.read_language()
    terms = tuple(split_question(question, language) for question in questions)
    request = RecallRequest(terms, filters or Filters(), hops)
    if similarity is not None:
        request = replace(request, similarities=(similarity,) * len(questions))
    return await store.recall(NAMESPACE, request, _ROOM, [0] * len(questions))


async def _recall_one(
    store: MemoryStore,
    question: str,
    filters: Filters | None = None,
    hops: int = 2,
    similarity: Similarity | None = None,
) -> Ranking:
    (ranking,) = (await _recall(store, [question], filters, hops, similarity)).rankings
    return ranking


async def _expect_recall(
    store: MemoryStore, question: str, keys: list[str], filters: Filters | None = None
) -> None:
    """Check which memories answer a question; ``keys`` are sorted."""
    ranking = await _recall_one(store, question, filters)
    expect(sorted(_list_names(ranking)), keys, f"{question} finds what has its words")


def _list_names(ranking: Ranking) -> list[str]:
    return [entry.name for entry in ranking.entries]
