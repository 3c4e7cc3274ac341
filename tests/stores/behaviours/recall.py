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
    rename,
)

_ROOM = 1 << 20
"""Bytes of contents, more than all memories of a behavior have."""


async def a_memory_is_recalled_as_soon_as_it_is_stored(store: MemoryStore) -> None:
    """Words of key, summary and content are found in any form; unknown words are told."""
    await put(store, "people/Ada", content="She wrote the first programs.", summary="an engine")
    await put(store, "other", content="nothing in common")

    for question, words in {
        "ada": ("ada",),
        "Which engines?": ("engines",),
        "a PROGRAM": ("PROGRAM",),
    }.items():
        ranking = await _recall_one(store, question)
        expect(_list_names(ranking), ["people/Ada"], f"{question} finds what has its words")
        expect(ranking.entries[0].words, words, f"{question} tells the words that were found")

    ranking = await _recall_one(store, "ada nowhere")
    expect(_list_names(ranking), ["people/Ada"], "one word of a question is enough")
    expect(ranking.unknown_words, ("nowhere",), "words that no memory holds are told")
    recalled = await _recall(store, ["ada"])
    expect(list(recalled.memories), ["people/Ada"], "what is found is loaded")


async def a_recall_follows_every_change(store: MemoryStore) -> None:
    """What a memory had before a change leads to it no more, and what it has now does."""
    await put(store, "heron", content="rose")
    await put(store, "heron", content="tulip")
    await _expect_recall(store, "rose", [])
    await _expect_recall(store, "tulip", ["heron"])

    await rename(store, "heron", "falcon")
    await _expect_recall(store, "heron", [])
    for question in ("falcon", "tulip"):
        await _expect_recall(store, question, ["falcon"])

    await end(store, "archive", "falcon")
    await _expect_recall(store, "tulip", [])
    await _expect_recall(store, "tulip", ["falcon"], Filters(archived=True))
    await put(store, "falcon", content="tulip")
    await _expect_recall(store, "tulip", ["falcon"])

    await end(store, "delete", "falcon")
    await _expect_recall(store, "falcon tulip", [])
    await put(store, "falcon", content="lily")
    await _expect_recall(store, "tulip", [])
    await _expect_recall(store, "lily", ["falcon"])


async def a_recall_passes_what_its_filters_pass(store: MemoryStore) -> None:
    """Filters keep memories out, also those that links lead to; they change no score."""
    await put(store, "a", content="tulip", tags=["t", "u"], links=[("b", 1.0)])
    await put(store, "b", content="tulip", type="task", tags=["t"], category="c")
    await put(store, "c", content="tulip", importance="high", links=[("b", 1.0)])
    await put(store, "c", kind="update", now=LATER, summary="changed")

    for filters, keys in (
        (Filters(type="task"), ["b"]),
        (Filters(tags=("t",)), ["a", "b"]),
        (Filters(tags=("t", "u")), ["a"]),
        (Filters(category="c"), ["b"]),
        (Filters(importance="high"), ["c"]),
        (Filters(changed_since=LATER), ["c"]),
        (Filters(changed_since=TIME), ["a", "b", "c"]),
        (Filters(type="task", importance="high"), []),
    ):
        await _expect_recall(store, "tulip", keys, filters)

    every, some = [
        {entry.name: entry.own for entry in (await _recall_one(store, "tulip", filters)).entries}
        for filters in (Filters(), Filters(type="task"))
    ]
    expect(some["b"], every["b"], "a filter changes no score")


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


async def a_recall_follows_links(store: MemoryStore) -> None:
    """Links lead from a hit to its neighbors in both directions, as many steps as asked."""
    await put(store, "hit", content="tulip", links=[("one", 1.0)])
    await put(store, "one", content="x", links=[("two", 1.0), ("missing", 1.0)])
    await put(store, "two", content="x", links=[("three", 1.0)])
    await put(store, "three", content="x")
    await put(store, "source", content="x", links=[("hit", 1.0)])

    for hops, keys in (
        (0, ["hit"]),
        (1, ["hit", "one", "source"]),
        (2, ["hit", "one", "source", "two"]),
    ):
        ranking = await _recall_one(store, "tulip", hops=hops)
        expect(sorted(_list_names(ranking)), keys, f"links lead {hops} steps from a hit")
        expect(_list_names(ranking)[0], "hit", "a hit stands before what only links lead to")

    ranking = await _recall_one(store, "tulip", hops=1)
    told = [(one.own, one.via, one.words) for one in ranking.entries if one.name == "one"]
    expect(told, [(0, "hit", ())], "the hit is told")


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


async def questions_share_what_they_find(store: MemoryStore) -> None:
    """A memory stands under one question, the one in whose ranking it has its best place."""
    await put(store, "both", content="tulip rose")
    await put(store, "best", content="rose", summary="rose")

    recalled = await _recall(store, ["tulip", "rose", "tulip"])

    names = [_list_names(ranking) for ranking in recalled.rankings]
    expect(names, [["both"], ["best"], []], "each memory stands under one question")
    expect(sorted(recalled.memories), ["best", "both"], "each memory is loaded once")


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


async def a_content_leads_to_those_with_its_rare_words(store: MemoryStore) -> None:
    """Memories that share the most rare words come first; archived and other ones never do."""
    await put(store, "own", content="Ada moved from Lisbon to Porto in the common spring")
    await put(store, "twin", content="In spring the common Ada has moved to Porto")
    await put(store, "far", content="the common spring")
    await put(store, "gone", content="Ada moved from Lisbon to Porto in the common spring")
    await end(store, "archive", "gone")
    for number in range(30):
        await put(store, f"k{number}", content=f"a common thing {number}")

    language = await store.read_language()
    own = split_question("Ada moved from Lisbon to Porto in the common spring", language)
    request = RecallRequest((own, split_question("nothing", language)), alike=True)
    found, nothing = (await store.recall(NAMESPACE, request, _ROOM, [0, 0])).rankings

    expect(_list_names(found)[:3], ["own", "twin", "far"], "more rare words in common come first")
    expect("gone" in _list_names(found), False, "archived memories are left out")
    expect(_list_names(nothing), [], "a content alone has nothing like it")


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
