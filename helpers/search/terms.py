"""Terms: the words by which memories are indexed, and which questions consist of.

A text is normalized (NFKC) and divided into runs of letters, marks and digits.

- A word becomes its stem in lower case without accents; stop words are left out. Irregular forms
  become the word that they belong to.
- An identifier such as ``ADR-007``, ``parse_args``, ``HTTPServer`` or ``C++`` becomes a term, and
  so does each of its parts.
- A run of a script without spaces between words becomes its pairs of neighboring characters, each
  of which counts as half a word.
- A UUID becomes a single term, or none if it is a memory's key, because its parts mean nothing.
- A name at the head of a content, such as ``Ada:`` or ``[8 May] Ada:``, becomes a further term,
  which ends with a colon.

Terms contain no NUL and no surrogates, and have at most 64 characters.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from itertools import pairwise
from threading import Lock
from typing import Literal, NamedTuple, Protocol, get_args

from abilities.helpers.search.passages import LONGEST_PASSAGE, split_sections
from abilities.helpers.search.ranking import compute_weight

_DUTCH = """
aan al als bij dan dat de der deze die dit doen door dus een en er geen had hadden heb hebben
heeft het hier hij hoe hun ik in is je jij jou jouw kan kon maar me mee meer men met mij mijn na
naar niet nog nu of om onder ons onze ook op over te tegen toch toen tot u uit uw van veel voor
waar waarom wanneer waren was wat we wel welke werd wie wij word wordt zal ze zei zich zij zijn zo
zonder zou
"""

_ENGLISH = """
a about above after again against all also am an and any are aren as at be because been before
being below between both but by can could couldn d did didn do does doesn doing don down during
each even few for from further had hadn has hasn have haven having he her here hers herself him
himself his how i if in into is isn it its itself just ll m many may me might more most much must
my myself no nor not now of off on once only or other our ours ourselves out over own re s same
shall she should shouldn so some such t than that the their theirs them themselves then there
these they this those through to too under until up upon us ve very was wasn we were weren what
when where which while who whom whose why will with would wouldn you your yours yourself
yourselves
"""

_FRENCH = """
ai as au aux avec avez avons c ce ces cet cette d dans de des du elle elles en est et eu eux il
ils j je l la le les leur leurs lui m ma mais me mes moi mon n ne nos notre nous on ont ou où par
pas pour qu quand que quel quelle quelles quels qui quoi s sa se ses si son sont suis sur t ta te
tes toi ton tu un une vos votre vous y à étaient était été être
"""

_GERMAN = """
aber als am an auch auf aus bei bin bis bist da damit dann das dass dein deine dem den der des
dessen die dies diese diesem diesen dieser dieses dir doch dort du durch ein eine einem einen
einer eines er es euch euer für habe haben hat hatte hatten hier hin ich ihm ihn ihnen ihr ihre im
in ins ist ja kann kein keine mein meine mich mir mit nach nicht noch nun nur ob oder ohne sehr
sein seine seinem seinen seiner seit sich sie sind so um und uns unser unter vom von vor wann war
waren warum was weil welche welchem welchen welcher welches wem wen wenn wer werden wie wir wird
wo worden wurde wurden zu zum zur über
"""

_ITALIAN = """
a ad ai al alla alle allo anche c che chi ci come con cosa da dal dalla dalle dei del della delle
dello di dove e ed era erano essere gli ha hai hanno ho i il in io l la le lei li lo loro lui ma
mi mia mie miei mio ne negli nei nel nella nelle noi non nostra nostro o per perché più quale
quali quando quanto quella quelle quelli quello questa queste questi questo se sei si sia siamo
sono sta su sua sue sugli sui sul sulla suo suoi ti tra tu tua tuo un una uno vi voi è
"""

_PORTUGUESE = """
a ao aos as com como da das de dela dele deles do dos e ela elas ele eles em entre era eram essa
esse esta este está eu foi foram há isso isto já lhe mais mas me meu meus minha minhas muito na
nas nem no nos nossa nosso num numa não nós o onde os ou para pela pelas pelo pelos por porque
quais qual quando que quem se sem ser seu seus sua suas são só também te tem tinha tu tua um uma
você vocês à às é
"""

_SPANISH = """
a al algo ante antes como con cual cuales cuando cuál cuáles cuándo cuánto cómo de del desde donde
dónde e el ella ellas ellos en entre era eran es esa ese eso esta estas este esto estos está están
fue fueron ha había han has hasta hay he la las le les lo los me mi mis mucho muy más mí nada ni
no nos nosotros o os otra otro para pero poco por porque que quien quién quiénes qué se sea ser si
sin sobre son soy su sus sí también tanto te tu tus tú un una uno unos y ya yo él
"""

_ASKING = {
    "dutch": """
alles herinner herinnert herinneren herinnering herinneringen notities onthouden weet weten
""",
    "english": """
anything everything know known memories memory notes recall remember remembered tell told
""",
    "french": """
connais connaissez mémoire notes rappelles rappelez retiens retenu sais savez souvenir souvenirs
souviens souvenez tout
""",
    "german": """
alles dich erinnern erinnere erinnerst erinnerung erinnerungen gemerkt hast kannst merken notizen
weißt wissen woran
""",
    "italian": """
conosci me memoria note ricordi ricorda ricordo ricordare sai sapere te tutto
""",
    "portuguese": """
lembra lembras lembrar lembranças memória memórias notas sabe sabes saber tudo
""",
    "spanish": """
acordarte acuerdas memoria notas recordar recuerda recuerdas recuerdos sabe sabes saber todo
""",
}

ASKING_WORDS = {language: frozenset(words.split()) for language, words in _ASKING.items()}
"""Words per language that only ask for memories, without a subject."""

STOP_WORDS: dict[str, frozenset[str]] = {
    "dutch": frozenset(_DUTCH.split()),
    "english": frozenset(_ENGLISH.split()),
    "french": frozenset(_FRENCH.split()),
    "german": frozenset(_GERMAN.split()),
    "italian": frozenset(_ITALIAN.split()),
    "portuguese": frozenset(_PORTUGUESE.split()),
    "spanish": frozenset(_SPANISH.split()),
}
"""The stop words per language; other languages have none."""


_ENGLISH_FORMS = """
become became, begin began begun, bite bit bitten, blow blew blown, break broke broken,
bring brought, build built, buy bought, catch caught, choose chose chosen, come came,
draw drew drawn, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen,
feel felt, fight fought, fly flew flown, forget forgot forgotten, forgive forgave forgiven,
freeze froze frozen, get got gotten, give gave given, go went gone, grow grew grown, hear heard,
hide hid hidden, hold held, keep kept, know knew known, learn learnt, lend lent, lose lost,
make made, mean meant, meet met, pay paid, ride rode ridden, run ran, say said, see seen,
seek sought, sell sold, send sent, shake shook shaken, show shown, sing sang sung, sink sank sunk,
sit sat, sleep slept, speak spoke spoken, spend spent, stand stood, steal stole stolen,
stick stuck, strike struck, swear swore sworn, sweep swept, swim swam swum, take took taken,
teach taught, tell told, think thought, throw threw thrown, understand understood,
wake woke woken, wear wore worn, win won, write wrote written,
child children, foot feet, man men, mouse mice, tooth teeth, woman women
"""


IRREGULAR_FORMS: dict[str, dict[str, str]] = {
    "english": {
        form: words[0] for words in map(str.split, _ENGLISH_FORMS.split(",")) for form in words[1:]
    }
}
"""The irregular forms per language, each with the word that is indexed instead."""


LONGEST_TERM = 64
"""The most characters of a term; a longer one is cut."""

NAME_TIMES = 3
"""How many times each word of a key or summary counts."""

MOST_NAME_WORDS = 2
"""The most words of a name at the head of a content."""

_LAST_REMEMBERED = 0xFFFF
"""The last character that `_SEPARATORS` remembers, so that the table stays small."""

LanguageName = Literal[
    "english",
    "arabic",
    "danish",
    "dutch",
    "finnish",
    "french",
    "german",
    "hindi",
    "hungarian",
    "italian",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "spanish",
    "swedish",
    "turkish",
]
"""The languages whose words can be stemmed."""

LANGUAGES: tuple[LanguageName, ...] = get_args(LanguageName)

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

# C++ and C# keep their signs.
_RUN = re.compile(r"[^\s\-_.@/:+#]+(?:[\-_.@/:+#]+[^\s\-_.@/:+#]+)*(?:\+\+|#)?")
_CONNECTORS = re.compile(r"[\-_.@/:+#]+")
# Between the words of parseArgs and of XMLFile, but not before the last letters of URLs.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])(?![A-Z]s(?![a-z]))")
_HEAD = re.compile(r"\s*(?:\[[^\]\n]{1,40}\]\s*)?([^\s:\[\]][^:\n\[\]]{0,40}):\s")

_SPACELESS = re.compile(
    "["
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Hiragana, Katakana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
    "\uac00-\ud7af"  # Hangul: it has spaces, but particles hang on its words
    "]+"
)
_ACCENTS = re.compile("[\u0300-\u036f]+")


class QuestionWord(NamedTuple):
    """A term of a question, with its word as it was asked."""

    term: str
    word: str


@dataclass(frozen=True, slots=True)
class Language:
    """A language by the name of its stemmer; it determines stems and stop words."""

    name: str = "english"


class _Stemmer(Protocol):
    def stemWord(self, word: str) -> str: ...  # noqa: N802 (the name in its package)


class MemoryTexts(NamedTuple):
    """The texts of a memory that are indexed; ``labels`` are its tags and category."""

    key: str
    summary: str
    content: str
    labels: str = ""


class _Run(NamedTuple):
    """The terms of a run of characters, and its length in words, stop words included."""

    terms: tuple[QuestionWord, ...]
    length: int


def weigh_terms(texts: MemoryTexts, language: Language) -> dict[str, int]:
    """Return the terms of a memory, each with its weight from 1 to 63.

    Words of the key and the summary count three times. In a long content, a term has the weight of
    its best passage, because a question is about a single passage.
    """
    weights: dict[str, int] = {}

    if len(texts.content) <= LONGEST_PASSAGE:
        weights = _weigh_short(texts, language)
    else:
        for passage in weigh_passages(texts, language):
            for term, weight in passage.items():
                weights[term] = max(weight, weights.get(term, 0))

    name = find_name(texts.content, language)
    if name is not None:
        weights[name] = 1

    return weights


def weigh_passages(texts: MemoryTexts, language: Language) -> Iterator[dict[str, int]]:
    """Yield the terms of a memory, with each of its passages in turn as its content."""
    for section in split_sections(texts.content):
        content = texts.content[section.start : section.end]
        yield _weigh_short(texts._replace(content=content), language)


def _weigh_short(texts: MemoryTexts, language: Language) -> dict[str, int]:
    counts, length = count_terms(texts, language)

    return {term: compute_weight(count, length) for term, count in counts.items()}


def count_terms(texts: MemoryTexts, language: Language) -> tuple[Counter[str], int]:
    """Return the count of each term in a memory, and the memory's length in words.

    The length includes stop words. In both, words of the key and the summary count three times.
    """
    counts: Counter[str] = Counter()
    length = 0

    if not _UUID.fullmatch(texts.key):
        length += _count(texts.key, language, NAME_TIMES, counts)

    length += _count(texts.summary, language, NAME_TIMES, counts)
    length += _count(texts.labels, language, 1, counts)
    length += _count(texts.content, language, 1, counts)

    return counts, length


def weigh_text(text: str, language: Language) -> dict[str, int]:
    """Return the terms of a text alone, each with its weight."""
    return weigh_terms(MemoryTexts("", "", text), language)


def find_name(content: str, language: Language) -> str | None:
    """Return the term of the name at the head of a content, of one or two words.

    >>> find_name("[8 May] Ada Lovelace: I moved.", Language())
    'ada lovelac:'
    """
    head = _HEAD.match(content)
    if head is None:
        return None

    words = [run.terms[0].term for run in _divide(head[1], language) if run.terms]
    if not 1 <= len(words) <= MOST_NAME_WORDS:
        return None

    return _join_name(words)


def list_names(question: Sequence[QuestionWord]) -> list[str]:
    """Return the terms of all names that a question may contain.

    >>> list_names(split_question("Where did Ada Lovelace move?", Language()))
    ['ada:', 'lovelac:', 'move:', 'ada lovelac:', 'lovelac move:']
    """
    words: dict[str, str] = {}
    for term, word in question:
        words.setdefault(word, term)  # of an identifier, the whole

    terms = list(words.values())
    pairs = pairwise(terms)
    return [_join_name([term]) for term in terms] + list(map(_join_name, pairs))


def _join_name(words: Sequence[str]) -> str:
    return " ".join(words)[: LONGEST_TERM - 1] + ":"


def split_question(question: str, language: Language) -> tuple[QuestionWord, ...]:
    """Return the terms of a question, each once, in the order of the question.

    A sentence that only asks for memories, such as "What do you know about me?", has no terms.

    >>> [word.term for word in split_question("Which painters painted?", Language())]
    ['painter', 'paint']
    """
    words: dict[str, QuestionWord] = {}
    has_stop_words = False

    for run in _divide(question, language):
        has_stop_words = has_stop_words or run.length > len(run.terms)
        for word in run.terms:
            words.setdefault(word.term, word)

    # Without stop words it is no sentence, and may be a search: "memory" finds that word.
    if has_stop_words:
        asking = ASKING_WORDS.get(language.name, ())
        if words.keys() <= {_stem(word.casefold(), language.name) for word in asking}:
            return ()

    return tuple(words.values())


def _count(text: str, language: Language, times: int, counts: Counter[str]) -> int:
    """Add a text's terms to the counts; return its length in words, stop words included."""
    length = 0

    for run in _divide(text, language):
        length += times * run.length
        for word in run.terms:
            counts[word.term] += times

    return length


def _divide(text: str, language: Language) -> Iterator[_Run]:
    """Yield the runs of a text in order."""
    normal = unicodedata.normalize("NFKC", text).translate(_SEPARATORS)

    for run in _RUN.findall(normal):
        if len(run) <= LONGEST_TERM:
            yield _split_known_run(run, language.name)
        else:
            yield _split_run(run, language.name)


def _split_run(run: str, language: str) -> _Run:
    """Return the terms of a run; a whole identifier comes before its parts."""
    folded = run.casefold()
    if _UUID.fullmatch(folded):
        return _Run((QuestionWord(folded, run),), 1)

    words = _CONNECTORS.split(run)
    parts = [part for word in words for part in _HUMP.split(word) if part]
    terms: list[QuestionWord] = []
    halves = 0

    # Plain words may also be joined, as in "well-known" or "and/or".
    is_compound = run.replace("-", "").replace("/", "").isalpha() and not _HUMP.search(run)
    is_identifier = len(words) + len(parts) > 2 and not is_compound
    if is_identifier:
        terms.append(QuestionWord(folded[:LONGEST_TERM], run))

    for part in parts:
        shown = run if is_identifier else part
        for term, size in _split_scripts(part, language):
            halves += size
            if term is not None:
                terms.append(QuestionWord(term, shown))

    return _Run(tuple(terms), (halves + 1) // 2)


_split_known_run = lru_cache(maxsize=32_768)(_split_run)
"""`_split_run` with a cache for short runs, because most words have occurred before."""


def _split_scripts(word: str, language: str) -> Iterator[tuple[str | None, int]]:
    """Yield the term of a word, but pairs of characters for scripts without spaces.

    A stop word yields None. With each comes its length in half words.
    """
    position = 0

    for match in _SPACELESS.finditer(word):
        if match.start() > position:
            yield _find_term(word[position : match.start()], language), 2

        run = match[0].casefold()
        for start in range(max(1, len(run) - 1)):
            yield run[start : start + 2], 1
        position = match.end()

    if position < len(word):
        yield _find_term(word[position:], language), 2


def _find_term(word: str, language: str) -> str | None:
    """Return the term of one word, or None for a stop word."""
    folded = word.casefold()
    if folded in STOP_WORDS.get(language, ()):
        return None

    return _stem(folded[:LONGEST_TERM], language)


@lru_cache(maxsize=32_768)
def _stem(word: str, language: str) -> str:
    stem = IRREGULAR_FORMS.get(language, {}).get(word, word)

    if stem.isalpha():
        with _stemming:
            stem = _load_stemmer(language).stemWord(stem)

    if not stem.isascii():
        plain = _ACCENTS.sub("", unicodedata.normalize("NFD", stem))
        stem = unicodedata.normalize("NFC", plain)[:LONGEST_TERM]

    return stem or word


@lru_cache
def _load_stemmer(language: str) -> _Stemmer:
    # The package's own function would prefer another implementation if one is installed.
    module = import_module(f"snowballstemmer.{language}_stemmer")
    stemmer: _Stemmer = getattr(module, f"{language.title()}Stemmer")()
    return stemmer


_stemming = Lock()
"""Held while a stemmer works, because its state is the current word."""


class _Separators(dict[int, str]):
    """Maps a character to itself if it is part of a word or joins two words, else to a space."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        is_kept = character in "-_.@/:+#" or unicodedata.category(character)[0] in "LMN"
        mapped = character if is_kept else " "

        if code <= _LAST_REMEMBERED:
            self[code] = mapped
        return mapped


_SEPARATORS = _Separators()
