"""Names of secrets: which are refused, in which spellings, and which ordinary ones are not.

Figure 15, first half: 265 names under which programs keep secrets, and 200 ordinary names.
"""

import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from abilities import Abilities, Settings
from abilities.helpers.files.deny import DenyList
from abilities.helpers.files.secret_names import SECRET_NAMES, list_denied, list_word_patterns
from tests.support.measurements import reached
from tests.support.reading import list_outcomes, read, write_files
from tests.support.tier import size

SUPPORT = Path(__file__).parents[1] / "support"
DENY = DenyList(list_denied())
EXAMPLES = size("ABILITIES_NAME_EXAMPLES", quick=100, full=1_500)
many = hypothesis_settings(max_examples=EXAMPLES)

COPIES = (
    "{}~", "{}.bak", "{}.BAK2", "{}.old", "{}.orig", "{}.save", "{}.swp", "{}.1", "{}.20240131",
    "{}.~3~", "{}.dpkg-old", "{}.rpmsave", "{}_backup", "{}-2024-01-31", "#{}#", ".#{}", "._{}",
    "copy of {}", "{} copy", "{} copy 2", "{} - Copy", "{} (1)", "{}(2)", "{} (conflicted copy)",
    "%home%ada%{}", "{}.", "{} ", "{}. .", "{}::$DATA", "{}:stream", "{}.un~",
)  # fmt: skip


def read_names(file: str) -> list[str]:
    """Return the names of a list, without its comments and headings."""
    lines = (SUPPORT / file).read_text().splitlines()
    return [line for line in lines if line and not line.startswith(("# ", "["))]


SECRETS = read_names("secret_names.txt")
ORDINARY = read_names("ordinary_names.txt")


def check(deny: DenyList, *, refused: Iterable[str], readable: Iterable[str] = ()) -> None:
    """Check what a list refuses, and what it does not."""
    assert [path for path in refused if not deny.denies(path)] == []
    assert [path for path in readable if deny.denies(path)] == []


def list_samples(pattern: str) -> list[str]:
    """Return names that a pattern says: with the first and with the last choice in its braces."""
    text = pattern.removeprefix("file:").removesuffix("/**").replace("*", "x")
    firsts = re.sub(r"\{([^{},]*),[^{}]*\}", r"\1", text)
    lasts = re.sub(r"\{[^{}]*,([^{},]*)\}", r"\1", text)
    return [firsts, lasts]


def change_name(path: str, form: str) -> str:
    """Return a path with another last name."""
    folder, slash, name = path.rpartition("/")
    return folder + slash + form.format(name)


def test_the_usual_names_of_secrets_are_refused_and_ordinary_ones_are_not() -> None:
    assert (len(set(SECRETS)), len(set(ORDINARY))) == (265, 200)

    check(DENY, refused=SECRETS, readable=ORDINARY)
    reached(15, "265 of 265 names of secrets refused, and 0 of 200 ordinary names")


def test_each_pattern_refuses_what_it_says_and_stands_once() -> None:
    patterns = [pattern.lower() for pattern in SECRET_NAMES]
    patterns += list_word_patterns()

    assert len(patterns) == len(set(patterns))
    check(DENY, refused=[name for pattern in patterns for name in list_samples(pattern)])


def test_names_are_known_by_their_kind() -> None:
    check(DENY, refused=read_names("secret_kinds.txt"), readable=read_names("ordinary_kinds.txt"))


@pytest.mark.parametrize("word", ["credentials", "private_key", "api-keys", "tokens", "env"])
def test_a_word_for_a_secret_names_files_and_not_folders(word: str) -> None:
    check(DENY, refused=[f"src/{word}"], readable=[f"src/{word}/", f"src/{word}/index.ts"])


LISTS = {
    "braces stand for either, and file: for no folder": (
        ["*.{crt,cer}", "file:{my,our}*notes", "{odd}", "!ca.{crt,cer}"],
        ["a.crt", "a/b.CER", "my-notes", "x/ournotes~", "a.crt/b", "{odd}"],
        ["a.cert", "ca.crt", "x/ca.cer", "your-notes", "my-notes/", "my-notes/a", "odd"],
    ),
    "a name in either normal form": (
        ["schlüssel.txt"],
        [unicodedata.normalize("NFD", "schlüssel.txt"), "SCHLU\u0308SSEL.TXT~"],
        ["schlussel.txt"],
    ),
    "an exception holds for its own name alone": (
        ["*.key", ".env.*", ".ssh/**", "!.env.example", "!certs/*.key", "!x.key.old"],
        ["test.key", "certs/a/b.key", "certs/.ssh/b.key", ".ssh/.env.example", "y.key.old"],
        ["certs/test.key", "a/certs/b.key", ".env.example", "x.key.old", "certs/b.key~"],
    ),
    "patterns without a whole word": (
        ["*secret*", "?.x?", "*/pri*/cert*"],
        ["my-secrets.txt", "a/B.XY", "a/private/certs/x", "topsecret/a", "mysecretfile~"],
        ["secre.txt", "ab.xy", "private/cert", "a/certs/private"],
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_refuses_what_its_patterns_say(name: str) -> None:
    patterns, refused, readable = LISTS[name]

    check(DenyList(patterns), refused=refused, readable=readable)


async def test_every_ability_gives_one_answer_about_a_name(roots: Settings) -> None:
    names = ["deploy_key", "db-password.txt", "db_credentials", "team/tokens.json"]
    ordinary = ["credentials.md", "credentials_form/index.ts", "api_keys/list.ts"]
    write_files(roots.workspace_dir, dict.fromkeys((*names, *ordinary), "plain words"))

    async with Abilities.open(roots) as abilities:
        outcomes = await read(abilities, *names, *ordinary, "api_keys")
        listed = await abilities.call("file_list", {"pattern": "**", "limit": 500})
        items = [{"search": "plain words"}, {"glob": "**"}]
        found = await abilities.call("read", {"items": items})

    assert outcomes == ["denied"] * len(names) + ["plain words"] * len(ordinary) + ["is_directory"]
    assert {file["path"] for file in listed["files"]} >= set(ordinary)
    assert not {file["path"] for file in listed["files"]} & set(names)
    assert not [name for name in names if name in str(found)]


@many
@given(
    name=st.sampled_from(SECRETS),
    folder=st.sampled_from(("", "a/", "deep/er/and deeper/", "node_modules/x/")),
    copies=st.lists(st.sampled_from(COPIES), max_size=3),
    data=st.data(),
)
def test_a_refused_name_stays_refused_in_every_spelling(
    name: str, folder: str, copies: list[str], data: st.DataObject
) -> None:
    path = folder + name
    for form in copies:
        path = change_name(path, form)

    # One draw for all letters: hypothesis takes its time for each.
    cases = data.draw(st.binary(min_size=len(path), max_size=len(path)))
    letters = [
        (char, char.upper(), char.lower())[case % 3] for char, case in zip(path, cases, strict=True)
    ]

    assert DENY.denies("".join(letters))


@many
@given(
    name=st.sampled_from(ORDINARY),
    folder=st.lists(st.sampled_from(("src", "docs", "my notes", "v1.2", "old", "Tests"))),
)
def test_an_ordinary_name_stays_readable_in_ordinary_folders(name: str, folder: list[str]) -> None:
    assert not DENY.denies("/".join((*folder, name)))


ALIASES_AND_COPIES = """
    GIT~1/config git~12/HEAD a/ENV~1 ENV~1.LOC NETRC~1 CREDEN~1.JSO SERVIC~1.JSO PASSWO~1.KDB
    ID_RSA~1 SSH~1/config CONFIG~1/GCLOUD/x .git::$INDEX_ALLOCATION/config .ssh./config
    .credentials.json.swp .id_rsa.swp .terraform.tfvars.swo credentials_old.json secrets.bak.yaml
    .aws.old/credentials key4.db.sync-conflict-20240131-101112-ABCDEF7 .git/.env.example
    tmp/.#krb5cc_1000
"""
SPELLINGS = [
    ".e\u200dnv",
    "．ｅｎｖ",
    ".e\u034fnv",  # ignored by ext4, though no format character
    ".env\ufe0f",
    "\ufeff.env",
    ".\u212aube/config",  # the Kelvin sign
    ".\u017fsh/config",  # the long s
    "pa\u00dfword.txt",
    unicodedata.normalize("NFD", ".ssh/schlüssel"),
]
"""Names that some file system takes for one that is refused."""


def test_aliases_copies_and_other_spellings_are_refused() -> None:
    copies = ["credentials - Copy.json", "credentials (1).json"]

    check(DENY, refused=[*ALIASES_AND_COPIES.split(), *copies, *SPELLINGS])


def test_three_dots_stand_for_the_default_list() -> None:
    settings = Settings(deny=("...", "config/own.txt", "!.npmrc"))

    denies = settings.policy.deny.denies

    assert settings.deny[:-2] == list_denied()
    assert denies("config/own.txt") and denies(".env") and not denies(".npmrc")


async def test_what_links_lead_through_is_refused_and_not_listed(roots: Settings) -> None:
    files = (".env", ".ssh/config", "real/plain.txt", "real/id_rsa")
    write_files(roots.workspace_dir, dict.fromkeys(files, "plain words"))
    links = {
        "notes.txt": ".env",
        "twice.txt": "notes.txt",
        "folder": ".ssh",
        "through.txt": ".ssh/../real/plain.txt",
        ".netrc": "real/plain.txt",
        "to-link.txt": ".netrc",
        ".aws": "real",
        "to-folder": ".aws",
        "to-link-folder.txt": ".aws/plain.txt",
        "gone.txt": ".npmrc",
        "alias.txt": "real/id_rsa",
        "fine.txt": "real/plain.txt",
    }
    for link, target in links.items():
        os.symlink(target, roots.workspace_dir / link)

    refused = [link for link in links if link not in ("folder", "to-folder", "fine.txt")]
    refused = [*refused, "folder/config", "to-folder/plain.txt", ".aws/plain.txt"]

    async with Abilities.open(roots) as abilities:
        outcomes = await read(abilities, *refused, "fine.txt")
        listed = await abilities.call("file_list", {"pattern": "{*,.*,**/*,.*/*}", "limit": 500})

    paths = {file["path"] for file in listed["files"]}
    assert outcomes == ["denied"] * len(refused) + ["plain words"]
    assert "fine.txt" in paths
    assert not paths & {*refused, ".env", ".ssh/config", "real/id_rsa"}


async def test_a_day_whose_notes_are_a_link_to_a_secret_is_refused(roots: Settings) -> None:
    write_files(roots.agent_dir, {".env": "KEY=1", "memory/2026-03-03.md": "notes"})
    os.symlink("../.env", roots.agent_dir / "memory" / "2026-03-04.md")
    targets = [{"type": "short_term", "date": f"2026-03-0{day}"} for day in (3, 4)]

    async with Abilities.open(roots) as abilities:
        reply = await abilities.call("memory_read_bulk", {"targets": targets})

    assert list_outcomes(reply) == ["notes", "denied"]
