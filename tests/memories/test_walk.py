"""The walk: the scenarios that decide it, its invariants, and two oracles over random graphs."""

import pytest

from abilities.declarations.memory import Direction
from abilities.helpers.walk import Walk, WalkLimits, WalkOutcome
from tests.support.walk_oracles import (
    Edge,
    Graph,
    build_graph,
    describe,
    expect_by_agenda,
    expect_by_recursion,
    make_random_graph,
    walk,
)


def list_keys(walked: WalkOutcome) -> list[str]:
    return [step.key for step in walked.steps]


DEFAULT = WalkLimits(3, 5, 20)


@pytest.mark.requirement("R1.3.1", "R4.2.1", "R4.4.1")
def test_depth_first_order() -> None:
    assert list_keys(walk(build_graph(A="B C", B="D"), "A", DEFAULT)) == ["A", "B", "D", "C"]


@pytest.mark.requirement("R1.4.1", "R4.2.3", "R4.4.2")
def test_weight_times_score_decides() -> None:
    graph = Graph({"A": [Edge("B", 0.8), Edge("C", 0.9)]}, {"B": 0.9, "C": 0.7})

    assert list_keys(walk(graph, "A", WalkLimits(3, 1, 20))) == ["A", "B"]
    assert list_keys(walk(graph, "A", DEFAULT)) == ["A", "B", "C"]


@pytest.mark.requirement("R1.5.1", "R4.2.4", "R4.4.4")
def test_a_memory_reached_twice_is_retrieved_once() -> None:
    walked = walk(build_graph(A="B C", B="C", C="D"), "A", DEFAULT)

    assert list_keys(walked) == ["A", "B", "C", "D"]
    assert walked.duplicates == 1


@pytest.mark.requirement("R1.6.4", "R1.8.1", "R4.4.1")
@pytest.mark.parametrize("depth", [2, 3])
def test_a_memory_met_again_on_a_shorter_way_is_walked_on_from_there(depth: int) -> None:
    walked = walk(build_graph(A="B C", B="C", C="D"), "A", WalkLimits(depth, 5, 20))

    assert sorted(list_keys(walked)) == ["A", "B", "C", "D"]
    assert {step.key: step.depth for step in walked.steps} == {"A": 0, "B": 1, "C": 1, "D": 2}
    assert walked.cut_by == []


@pytest.mark.requirement("R1.6.1", "R4.4.3")
def test_depth_stops_descending() -> None:
    walked = walk(build_graph(A="B", B="C", C="D", D="E"), "A", WalkLimits(2, 5, 20))

    assert list_keys(walked) == ["A", "B", "C"]
    assert walked.cut_by == ["depth"]
    assert [(c.key, c.source, c.cut_by) for c in walked.frontier] == [("D", "C", "depth")]


@pytest.mark.requirement("R1.6.2", "R4.4.3")
def test_breadth_takes_the_best() -> None:
    walked = walk(build_graph(A=" ".join(f"B{n}" for n in range(10))), "A", DEFAULT)

    assert list_keys(walked) == ["A", "B0", "B1", "B2", "B3", "B4"]
    assert walked.cut_by == ["breadth"]
    assert [c.key for c in walked.frontier] == ["B5", "B6", "B7", "B8", "B9"]


@pytest.mark.requirement("R1.6.4")
def test_a_link_back_takes_no_place() -> None:
    walked = walk(build_graph(A="B C D", B="A C E", C=""), "A", WalkLimits(3, 2, 20))

    assert list_keys(walked) == ["A", "B", "E", "C"]
    assert walked.duplicates == 2
    assert [(c.key, c.source, c.cut_by) for c in walked.frontier] == [("D", "A", "breadth")]


def test_a_full_memory_takes_no_more_although_its_children_come_nearer() -> None:
    graph = build_graph(A="B C", B="C X", C="D E F", D="G")
    walked = walk(graph, "A", WalkLimits(3, 2, 20))

    assert [(step.key, step.depth) for step in walked.steps] == [
        ("A", 0),
        ("B", 1),
        ("X", 2),
        ("C", 1),
        ("D", 2),
        ("G", 3),
        ("E", 2),
    ]
    assert [(c.key, c.source, c.cut_by) for c in walked.frontier] == [("F", "C", "breadth")]


def test_links_between_all_of_six_memories_are_passed_over_once_each() -> None:
    names = "ABCDEF"
    complete = build_graph(**{name: " ".join(names.replace(name, "")) for name in names})

    walked = walk(complete, "A", DEFAULT)

    assert (len(walked.steps), walked.duplicates) == (6, 25)


def test_a_memory_stands_beneath_the_shortest_way_to_it() -> None:
    graph = Graph(
        {
            "A": [Edge("B", 0.9), Edge("E", 0.8), Edge("C", 0.1)],
            "B": [Edge("C", 0.9)],
            "C": [Edge("D", 0.9)],
        }
    )
    walked = walk(graph, "A", WalkLimits(2, 5, 20))

    assert list_keys(walked) == ["A", "B", "E", "C", "D"]
    assert [step.parent.key for step in walked.steps if step.parent] == ["A", "A", "A", "C"]


def test_ranks_are_exact_where_floats_are_not() -> None:
    graph = Graph({"A": [Edge("a", 0.6), Edge("b", 0.4)]}, {"a": 0.6, "b": 0.9})

    ranks = [link.rank for link in graph.list_links("A")]
    assert ranks == [360_000, 360_000]
    assert list_keys(walk(graph, "A", DEFAULT)) == ["A", "a", "b"], "the heavier link first"


@pytest.mark.parametrize(
    ("direction", "keys"), [("in", ["A", "B", "D"]), ("both", ["A", "B", "D", "C"])]
)
def test_links_are_followed_backwards_too(direction: Direction, keys: list[str]) -> None:
    graph = build_graph(B="A", D="B", A="C")

    assert list_keys(walk(graph, "A", DEFAULT, direction)) == keys


@pytest.mark.requirement("R4.5.8")
def test_cycles_are_counted() -> None:
    assert walk(build_graph(A="B", B="C", C="A B"), "A", DEFAULT).cycles == 2
    assert walk(build_graph(A="B C", B="D", C="D"), "A", DEFAULT).cycles == 0


@pytest.mark.requirement("R1.6.3", "R4.4.3")
def test_total_counts_the_target_and_stops_at_once() -> None:
    graph = build_graph(A="B C", B="D E", C="F")

    assert list_keys(walk(graph, "A", WalkLimits(3, 5, 3))) == ["A", "B", "D"]
    assert walk(graph, "A", WalkLimits(3, 5, 3)).cut_by == ["total"]

    exact = walk(graph, "A", WalkLimits(3, 5, 6))

    assert (list_keys(exact), exact.cut_by) == (["A", "B", "D", "E", "C", "F"], [])


def test_missing_archived_and_invalid_are_counted_and_take_no_place() -> None:
    graph = build_graph(A="B C D E")
    graph.missing, graph.archived, graph.invalid = {"B"}, {"C"}, {("A", "D", "association")}

    walked = walk(graph, "A", WalkLimits(3, 2, 20))

    assert list_keys(walked) == ["A", "E"]
    assert (walked.missing, walked.invalid, walked.cut_by) == (2, 1, [])


def test_ties_are_broken_by_weight_and_then_by_key() -> None:
    graph = Graph(
        {"A": [Edge("b", 0.5), Edge("a", 0.5), Edge("c", 1.0), Edge("é", 0.5)]}, {"c": 0.5}
    )
    assert list_keys(walk(graph, "A", DEFAULT)) == ["A", "c", "a", "b", "é"]


@pytest.mark.requirement("R4.5.7")
def test_cycles_self_links_and_a_complete_graph_end() -> None:
    assert list_keys(walk(build_graph(A="A B", B="A"), "A", DEFAULT)) == ["A", "B"]

    names = "ABCDEF"
    complete = build_graph(
        **{name: " ".join(other for other in names if other != name) for name in names}
    )
    walked = walk(complete, "A", DEFAULT)

    assert sorted(list_keys(walked)) == list(names)
    assert all(step.depth == 1 for step in walked.steps[1:])


@pytest.mark.requirement("R4.5.1")
def test_a_long_chain_and_a_large_hub_are_no_burden() -> None:
    chain = build_graph(**{f"k{n}": f"k{n + 1}" for n in range(5_000)})

    assert len(list_keys(walk(chain, "k0", WalkLimits(6, 20, 50)))) == 7

    hub = Graph({"A": [Edge(f"k{n:06}", 0.5) for n in range(20_000)]})

    assert len(list_keys(walk(hub, "A", WalkLimits(6, 20, 50), page=50_000))) == 21


@pytest.mark.requirement("R2.1.2", "R4.6.1")
@pytest.mark.parametrize("block", range(20))
def test_four_thousand_random_graphs_agree_with_both_oracles(block: int) -> None:
    stops = revisits = cut = 0

    for seed in range(block * 200, block * 200 + 200):
        graph, limits = make_random_graph(seed)
        direction: Direction = ("out", "out", "in", "both")[seed % 4]
        walked = walk(graph, "m0", limits, direction, page=1 + seed % 7)
        expected = expect_by_recursion(graph, "m0", limits, direction)

        assert expected == expect_by_agenda(graph, "m0", limits, direction), seed
        assert describe(walked) == expected, seed
        check_tree(walked, limits)

        stops += expected.stopped
        revisits += expected.duplicates > 0
        cut += bool(expected.limits_reached)

    assert 0 < stops < 200 and 0 < revisits < 200 and 0 < cut < 200


def check_tree(walked: WalkOutcome, limits: WalkLimits) -> None:
    """Check what a reader relies on: a parent comes first, and nobody has too many children."""
    places = {step.key: place for place, step in enumerate(walked.steps)}
    children: dict[str, int] = {}

    assert len(places) == len(walked.steps) <= limits.total

    for step in walked.steps[1:]:
        assert step.parent is not None
        assert places[step.parent.key] < places[step.key]
        assert step.parent.depth + 1 == step.depth <= limits.depth
        children[step.parent.key] = children.get(step.parent.key, 0) + 1

    assert max(children.values(), default=0) <= limits.breadth


@pytest.mark.requirement("R4.5.2", "R4.5.3", "R4.5.9")
def test_no_more_links_are_requested_than_are_needed() -> None:
    graph = build_graph(m0=" ".join(f"m{n}" for n in range(1, 1001)))
    conversation = Walk("m0", WalkLimits(1, 5, 20)).run()
    offsets: list[int] = []
    request = next(conversation)

    with pytest.raises(StopIteration):
        while True:
            if request.key == "m0":
                offsets.append(request.offset)
            links = graph.list_links(request.key)[request.offset : request.offset + 5]
            request = conversation.send(links)

    assert offsets == [0, 5, 10, 15], "five to retrieve, ten for the frontier, one beyond it"


def test_of_memories_at_the_limit_few_links_are_needed() -> None:
    graph = build_graph(m0="a b c")
    for name, weight in (("a", 0.9), ("b", 0.5), ("c", 0.1)):
        graph.edges[name] = [Edge(f"{name}{n:02}", weight) for n in range(40)]
    sent: dict[str, int] = {}
    conversation = Walk("m0", WalkLimits(1, 5, 20)).run()
    request = next(conversation)

    with pytest.raises(StopIteration):
        while True:
            end = request.offset + request.needed
            links = graph.list_links(request.key)[request.offset : end]
            sent[request.key] = sent.get(request.key, 0) + len(links)
            request = conversation.send(links)

    assert sent == {"m0": 3, "a": 12, "b": 1, "c": 1}, "ten for the frontier, and two beyond it"


def test_no_more_missing_links_are_counted_than_the_bound() -> None:
    graph = build_graph(A=" ".join(f"gone{n}" for n in range(3_000)))
    graph.missing = {f"gone{n}" for n in range(3_000)}

    assert walk(graph, "A", DEFAULT, page=100).missing == 1_000
