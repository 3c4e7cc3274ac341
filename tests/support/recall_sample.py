"""A small world for `recall`: memories of an agent on a software project, and questions.

The questions are worded as people ask, often with other words than the memory has. Each names the
memories that answer it.
"""

import random
from typing import NamedTuple

from tests.support.recall_index import PlainMemory


class Question(NamedTuple):
    """A question, and the keys of the memories that answer it.

    If ``is_quoted``, what counts is that the ``answer`` is in the text that is shown of one.
    """

    text: str
    evidence: tuple[str, ...]
    category: str = "own words"
    answer: str = ""
    is_quoted: bool = False


_TEXTS: dict[str, str] = {
    "adr/001": "ADR-001: The service keeps its data in PostgreSQL 16, because we need row locks.",
    "adr/002": "ADR-002: Events go through NATS. Kafka was too much to operate for three people.",
    "adr/007": "ADR-007: parse_args is replaced by click; the old flags stay for one release.",
    "adr/009": "ADR-009: Dates are stored in UTC and shown in the reader's time zone.",
    "people/ada": "Ada leads the storage team. She prefers short written proposals.",
    "people/bo": "Bo moved from Oslo to Lisbon in March and works from there.",
    "people/chen": "Chen is on parental leave until September; Ada stands in.",
    "people/dora": "Dora's address is dora@example.com. She runs the security reviews.",
    "deploy/steps": "To deploy: tag the commit, wait for CI, run make release, watch the graphs.",
    "deploy/rollback": "A rollback takes four minutes: make release VERSION=previous.",
    "deploy/friday": "We do not ship on Fridays since the outage of last November.",
    "outage/november": "The outage was caused by a full disk: logs were not rotated.",
    "outage/fix": "logrotate now runs hourly, and an alert fires at 80 % of the disk.",
    "outage/cost": "It cost us two customers, the bakery chain and the ferry company.",
    "api/limits": "Clients may send 100 requests a minute; beyond that they get HTTP 429.",
    "api/errors": "Errors are JSON with a code and a message, never a stack trace.",
    "api/pages": "Lists are paged by cursor. Offsets were slow beyond 10,000 rows.",
    "tests/flaky": "test_reconnect fails now and then on CI because the port is reused.",
    "tests/time": "The whole suite takes six minutes on two cores.",
    "office/coffee": "The grinder broke; the new one arrived and stands in the kitchen.",
    "office/plants": "The fern by the window has to be watered twice a week.",
    "office/party": "The summer party is on the boat, on 21 June; partners are invited.",
    "user/tea": "The user drinks green tea in the morning and never coffee.",
    "user/language": "The user wants answers in German, but code comments in English.",
    "user/editor": "The user writes in Neovim with a dark theme.",
    "user/dog": "The user's dog is called Biscuit and is afraid of thunder.",
    "user/run": "The user ran the half marathon in Hamburg in 1:52.",
    "zh/pool": "数据库连接池的最大连接数设为五十，超时时间为三秒。",
    "zh/backup": "每天凌晨两点自动备份，保留三十天。",
    "de/urlaub": "Im August ist das Büro in Zürich wegen der Ferien geschlossen.",
}

_LINKS = (
    ("outage/november", "outage/fix"),
    ("outage/november", "outage/cost"),
    ("deploy/friday", "outage/november"),
    ("deploy/steps", "deploy/rollback"),
    ("people/chen", "people/ada"),
)

MEMORIES = [
    PlainMemory(key, text, links=[(target, 0.5) for source, target in _LINKS if source == key])
    for key, text in _TEXTS.items()
]

QUESTIONS = (
    Question("Where does the service keep data?", ("adr/001",)),
    Question("Why not Kafka?", ("adr/002",)),
    Question("What does ADR-007 say?", ("adr/007",)),
    Question("What happened to parse_args?", ("adr/007",)),
    Question("In which time zone do we store dates?", ("adr/009",)),
    Question("Who is leading the storage team?", ("people/ada",)),
    Question("Where does Bo work now?", ("people/bo",)),
    Question("When does Chen come back from leave?", ("people/chen",)),
    Question("Who does security reviews?", ("people/dora",)),
    Question("dora@example.com", ("people/dora",)),
    Question("How do I deploy a release?", ("deploy/steps",)),
    Question("How long does rolling back take, a rollback?", ("deploy/rollback",)),
    Question("May I ship on Friday?", ("deploy/friday",)),
    Question("What caused the outage?", ("outage/november",)),
    Question("What did we do about the logs and the full disk?", ("outage/fix",)),
    Question("How many requests can a client send per minute?", ("api/limits",)),
    Question("Do errors contain stack traces?", ("api/errors",)),
    Question("Why are lists paged by cursors?", ("api/pages",)),
    Question("Why is test_reconnect failing?", ("tests/flaky",)),
    Question("How long do the tests take, the suite?", ("tests/time",)),
    Question("Did the user buy or drink coffee or tea?", ("user/tea",)),
    Question("What is the name of the dog?", ("user/dog",)),
    Question("How fast did the user run the half marathon?", ("user/run",)),
    Question("When is the party?", ("office/party",)),
    Question("数据库连接池的超时时间是多少？", ("zh/pool",)),
    Question("备份保留多久？", ("zh/backup",)),
    Question("Wann ist das Büro in Zurich geschlossen?", ("de/urlaub",)),
    Question("Which customers did the outage cost us?", ("outage/cost",), "over a link"),
    Question("Why is there no shipping on Fridays?", ("outage/november",), "over a link"),
    Question("Who stands in for the one on parental leave?", ("people/ada",), "over a link"),
)


FOREIGN_QUESTIONS = (
    "Which museum in Madrid shows the painting of the royal family?",
    "How many moons does Saturn have?",
    "What did the dentist recommend for sensitive gums?",
    "Who won the chess tournament last spring?",
    "Which seeds should be sown before the first frost?",
    "What is the boiling point of ethanol?",
    "When did the singer record her second album in Nashville?",
    "How do I replace the chain of a mountain bike?",
    "Which airline lost the suitcase of my sister?",
    "What color was the curtain in the guest bedroom?",
    "Who taught Jonah to play the cello?",
    "Which vaccine does a kitten need first?",
    "How long must sourdough rest in the fridge?",
    "What grade did Priya get in organic chemistry?",
    "Where was the treaty signed that ended the war?",
    "Which tent did we rent for the hike in Patagonia?",
    "What is the recipe of grandmother's plum cake?",
    "How much snow fell in the valley yesterday?",
    "Who directed the film about the lighthouse?",
    "Which bank offers the lowest mortgage rate?",
)
"""Questions about things of which the small world has nothing."""


def make_chains(count: int, seed: int = 1) -> tuple[list[PlainMemory], list[Question]]:
    """Return memories, and questions whose answers only a link or two lead to.

    Of each three memories the first has the words of the question, the second is linked from it,
    and the third is linked from the second. Neither shares a word with the question.
    """
    chance = random.Random(seed)
    syllables = ("ba", "ko", "li", "mu", "ne", "ra", "so", "ti", "vu", "za")

    def make_name() -> str:
        return "".join(chance.choice(syllables) for _ in range(5)).title()

    memories: list[PlainMemory] = []
    questions: list[Question] = []

    for number in range(count):
        project, person, town = make_name(), make_name(), make_name()
        first, second, third = (f"chain/{number}/{step}" for step in range(3))
        text = f"Project {project} is led by someone from the {person} group."
        memories += [
            PlainMemory(first, text, links=[(second, 0.5)]),
            PlainMemory(second, f"Their home is {town}.", links=[(third, 0.5)]),
            PlainMemory(third, f"It lies at the sea, {chance.randint(10, 90)} km from here."),
        ]
        asked = f"In which place is the leader of project {project}?"
        questions += [
            Question(asked, (second,), "one link away"),
            Question(asked, (third,), "two links away"),
        ]

    return memories, questions
