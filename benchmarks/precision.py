"""PrecisionMemBench: does `recall` bring what answers, and nothing else?

`python -m benchmarks.precision FIXTURES` runs its 77 cases of single questions, with the rules of
its runner for other systems (https://github.com/tenurehq/precisionMemBench). A case passes if all
beliefs that it wants are there, and none that it does not want. As with the other systems, pinned
beliefs and open questions come from the runner, and found relations bring what they relate. That
runner counts open questions among these as wrong answers, although its cases want them apart; both
counts are printed.
"""

import argparse
import asyncio
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import orjson
from rich.console import Console
from rich.table import Table

from abilities import Abilities, Settings
from abilities.declarations.values import JsonObject

MOST_BELIEFS = 20
USER = "test-user"

AT_LEAST: Sequence[float | None] = (None, 0, 0.5, 0.6)
"""None asks as `recall` does by default."""


class Answer(NamedTuple):
    """The beliefs that answer a question, pinned and found."""

    pinned: list[str]
    found: list[str]


class Outcome(NamedTuple):
    """Whether a case passes, and the shares of right beliefs among all found, and of all wanted."""

    passes: bool
    precision: float | None
    recall: float | None


class Beliefs:
    """The beliefs of the benchmark, stored as memories: a belief's names are the summary."""

    def __init__(self, abilities: Abilities, beliefs: Sequence[JsonObject]) -> None:
        self._abilities = abilities
        self._beliefs = {belief["_id"]: belief for belief in beliefs}

    async def store(self) -> None:
        """Store all but the open questions; what was superseded or resolved is archived."""
        for belief in self._beliefs.values():
            if belief["type"] == "open_question":
                continue

            view = self._abilities.for_namespace(belief["user_id"])
            memory: JsonObject = {
                "type": "core",
                "key": belief["_id"],
                "summary": ", ".join([belief["canonical_name"], *belief["aliases"]]),
                "content": f"{belief['content']} {belief['why_it_matters']}",
                "tags": belief["scope"],
            }
            stored = await view.call("store_memory", memory)
            assert "error" not in stored, stored
            if belief["superseded_by"] or belief["resolved_at"]:
                await view.call("update_memory", {"id": stored["id"], "archived": True})

    def list_pinned(self, user: str, scopes: Sequence[str], *, questions: bool) -> list[str]:
        """Return the pinned facts of some scopes, or the pinned questions."""
        pinned: list[str] = []
        for name, belief in self._beliefs.items():
            is_question = belief["type"] == "open_question"
            is_over = belief["resolved_at"] or (belief["superseded_by"] and not is_question)
            is_visible = belief["user_id"] == user and {*belief["scope"]} & {*scopes}
            if belief["pinned"] and is_visible and is_question == questions and not is_over:
                pinned.append(name)

        return pinned

    async def ask(self, case: JsonObject, at_least: float | None, *, apart: bool) -> Answer:
        """Ask the question of a case in each of its scopes; ``apart`` keeps questions out."""
        user, scopes = case.get("userId", USER), case["scope"]
        most: int = case.get("budget", {}).get("maxBeliefs", MOST_BELIEFS)
        pinned = self.list_pinned(user, scopes, questions=False)

        recalled: list[str] = []
        for scope in scopes if case["query"].strip() and most else ():
            arguments: JsonObject = {"queries": [case["query"]], "tags": [scope]}
            if at_least is not None:
                arguments["at_least"] = at_least
            answer = await self._abilities.for_namespace(user).call("recall", arguments)
            recalled += [memory["key"] for memory in answer["results"][0]["memories"]]

        found = [name for name in dict.fromkeys(recalled) if name not in pinned][:most]
        for name in tuple(found):
            for other in self._beliefs[name].get("participants", ()):
                related = self._beliefs[other]
                is_kept_apart = apart and related["type"] == "open_question"
                is_visible = related["user_id"] == user and {*related["scope"]} & {*scopes}
                if is_visible and not is_kept_apart and other not in (*pinned, *found):
                    found.append(other)

        pinned = pinned[:most]
        return Answer(pinned, found[: most - len(pinned)])

    def judge(self, case: JsonObject, answer: Answer) -> Outcome:
        """Judge an answer by the rules of a case."""
        expected: dict[str, dict[str, Any]] = case["expect"]
        wanted = expected.get("relevantBeliefs", {})
        found, every = {*answer.found}, {*answer.pinned, *answer.found}
        user = case.get("userId", USER)
        questions = self.list_pinned(user, case["scope"], questions=True)
        persona = expected.get("personaPrelude", {})

        rules = [
            every >= {*wanted.get("mustInclude", ()), *wanted.get("shouldInclude", ())},
            not every & {*wanted.get("mustExclude", ())},
            found == {*wanted.get("shouldOnlyInclude", found)},
            wanted.get("minCount", 0) <= len(found) <= wanted.get("maxCount", MOST_BELIEFS),
            not (persona.get("isNull") if user == USER else persona.get("nonEmpty")),
        ]
        for first, second in wanted.get("orderedBefore", ()):
            rules.append({first, second} <= found)
            rules.append([name for name in answer.found if name in (first, second)][:1] == [first])
        for tier, names in (("pinnedFacts", answer.pinned), ("openQuestions", questions)):
            rules.append({*expected.get(tier, {}).get("mustInclude", ())} <= {*names})
            rules.append(not {*expected.get(tier, {}).get("mustExclude", ())} & {*names})

        right = {*wanted.get("shouldOnlyInclude", ())}
        if "shouldOnlyInclude" not in wanted:
            named: list[str] = wanted.get("mustInclude", [])
            right = {name for name in named if not self._beliefs[name]["pinned"]}
        hits = len(right & found)
        precision = hits / len(found) if found else 0.0
        return Outcome(
            all(rules),
            precision if found or right else None,
            hits / len(right) if right else None,
        )


async def measure(folder: Path, console: Console) -> None:
    """Ask every question at every limit, and print a table."""
    beliefs: list[JsonObject] = orjson.loads((folder / "beliefs.seed.json").read_bytes())
    cases: list[JsonObject] = orjson.loads((folder / "retrieval.cases.json").read_bytes())
    table = Table(
        *("at_least", "passed, questions apart", "passed, literally", "precision", "recall"),
        title=f"PrecisionMemBench, {len(cases)} cases",
    )

    with tempfile.TemporaryDirectory() as place:
        base = Path(place)
        for name in ("agent", "workspace"):
            (base / name).mkdir()
        settings = Settings(
            agent_dir=base / "agent",
            workspace_dir=base / "workspace",
            store_url=f"sqlite:///{base / 'memory.db'}",
        )
        async with Abilities.open(settings) as abilities:
            stored = Beliefs(abilities, beliefs)
            await stored.store()
            for at_least in AT_LEAST:
                passed: list[int] = []
                for apart in (True, False):
                    outcomes: list[Outcome] = []
                    for case in cases:
                        answer = await stored.ask(case, at_least, apart=apart)
                        outcomes.append(stored.judge(case, answer))
                    passed.append(sum(outcome.passes for outcome in outcomes))

                # Of the literal rules, as the published figures are.
                precisions = [one.precision for one in outcomes if one.precision is not None]
                recalls = [one.recall for one in outcomes if one.recall is not None]
                shares = f"{fmean(precisions):.2f}", f"{fmean(recalls):.2f}"
                limit = "default" if at_least is None else f"{at_least:g}"
                table.add_row(limit, *map(str, passed), *shares)

    console.print(table)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fixtures", type=Path, help="the folder fixtures of PrecisionMemBench")
    asyncio.run(measure(parser.parse_args().fixtures, Console(width=120)))


if __name__ == "__main__":
    main()
