"""The developers' tools: what they quote from the code exists."""

from tools.mutation import Definition, find_definition, list_definitions, list_outdated


def test_every_explained_mutant_is_in_a_function_that_exists() -> None:
    assert list_outdated() == []


def test_a_mutant_is_found_by_the_innermost_definition() -> None:
    source = "LIMIT = 3\n\n@mark\nclass A:\n    @mark\n    def b(self):\n        return 1\n"

    definitions = list_definitions(source)

    assert sorted(definitions) == [
        Definition("A", 3, 7),
        Definition("A.b", 5, 7),
        Definition("LIMIT", 1, 1),
    ]
    assert [find_definition(definitions, line) for line in (1, 2, 3, 5, 7)] == [
        "LIMIT",
        "",
        "A",
        "A.b",
        "A.b",
    ]
