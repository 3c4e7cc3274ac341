"""Settings, from arguments, the environment (``ABILITIES_…``), a TOML file, or defaults.

An error about a setting says in plain words what is wrong and where the value was set: in an
argument, in a variable, or on a line of the file.
"""

import os
import re
import tomllib
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from abilities.declarations.fields import Detail, OutputFormat, TimeZone
from abilities.declarations.memory import Namespace, OtherNamespaces, parse_namespace
from abilities.declarations.refusals import AbilitiesError
from abilities.declarations.suggestions import suggest_value
from abilities.declarations.values import as_object
from abilities.helpers.files.confinement import SKIPPED_FOLDERS, Policy
from abilities.helpers.files.deny import OwnFiles, OwnPlace, build_deny_list
from abilities.helpers.files.reader import (
    PLACEHOLDER,
    RootPlace,
    enter_namespace,
    find_ban,
    find_shared_part,
)
from abilities.helpers.files.secret_names import list_denied
from abilities.helpers.memory.targets import MEMORY_LAYOUTS, MemoryFiles
from abilities.helpers.search.terms import LanguageName
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.opening import (
    STORE_SUFFIXES,
    check_store_url,
    is_store_header,
    store_path,
)
from abilities.helpers.tokens import TOKEN_SUFFIXES

Compat = Literal["kv-memory"]
"""Systems whose clients can be served."""

HOME = Path("~/.abilities")
"""The default place of all files."""

PREFIX = "ABILITIES_"
"""The prefix of all environment variables."""

FILE_VARIABLE = "ABILITIES_CONFIG"
"""The environment variable that names the settings file."""

_LINKED_SERVICE = re.compile(r"ABILITIES_(SERVICE_(HOST|PORT)|PORT_\d+_)|ABILITIES_PORT=\w+://")
"""Variables that container platforms set for a service named ``abilities``."""

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""The names of addresses that only this machine can reach."""

LOCAL_URL = "http://127.0.0.1:8642"
"""The address of a server that was started without options."""

_PUBLIC_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>[a-z0-9.-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?/?", re.IGNORECASE
)

_OPTIONS = ("host", "port")
"""Options of a server that users mistake for settings."""

_DEFAULT = "..."
"""The name that stands for the default names."""

_COMMA = re.compile(r",(?![^{}]*\})")
"""A comma between names, but not one in the braces of a pattern."""

_MESSAGES = {
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text in quotes",
    "path_type": "must be a path in quotes",
    "tuple_type": 'must be a list of names, for example ["recall", "read"]',
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "literal_error": "must be one of {expected}",
    "too_long": "must be at most {max_length} names",
}
"""Our messages for pydantic's errors, by their type."""


def split_names(text: str) -> tuple[str, ...]:
    """Return the names in a text with commas between them.

    >>> split_names("read, recall"), split_names("*.{pem,key}, .env")
    (('read', 'recall'), ('*.{pem,key}', '.env'))
    """
    names = [name.strip() for name in _COMMA.split(text)]
    return tuple(name for name in names if name)


def _make_absolute(path: Path) -> Path:
    try:
        return path.expanduser().absolute()
    except FileNotFoundError:
        raise ValueError(
            "is in the current directory, which does not exist any more; go to another: cd ~"
        ) from None


_SPLIT = BeforeValidator(lambda value: split_names(value) if isinstance(value, str) else value)
Names = Annotated[tuple[str, ...], _SPLIT]
"""Several names; in the environment one string with commas between them."""

AbsolutePath = Annotated[Path, AfterValidator(_make_absolute)]


class SettingsFileError(AbilitiesError, ValueError):
    """The settings file cannot be read, or is not TOML; the message names the file and the line."""


def find_settings_file() -> Path:
    """Return the path of the settings file, which need not exist."""
    return Path(os.environ.get(FILE_VARIABLE, HOME / "config.toml")).expanduser().absolute()


def read_settings_file() -> dict[str, Any]:
    """Return the content of the settings file; it is empty if the default file does not exist.

    Raises SettingsFileError, also if a file that the variable names does not exist.
    """
    path = find_settings_file()

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if FILE_VARIABLE not in os.environ:
            return {}

        raise SettingsFileError(
            f"the settings file {path} does not exist; create it, or correct {FILE_VARIABLE}, "
            "which names it"
        ) from None
    except UnicodeDecodeError:
        raise SettingsFileError(
            f"the settings file {path} is not text in UTF-8; save it as such"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsFileError(
            f"the settings file {path} is not valid TOML: {error}; a right line, with text in "
            'quotes, is for example: timezone = "Europe/Berlin"'
        ) from None
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise SettingsFileError(
            f"the settings file {path} cannot be read: {reason}; it must be a file that this user "
            "may read"
        ) from None


def find_origin(name: str, arguments: Collection[str] = ()) -> str | None:
    """Return the place where a setting was set, for a message; None for a default.

    For example "the argument timezone", "ABILITIES_TIMEZONE", or "/home/ada/config.toml, line 3".
    ``arguments`` has the names of settings that were passed as arguments, which take precedence.
    """
    if name in arguments:
        return f"the argument {name}"

    variable = find_variables().get(name.lower())
    if variable is not None:
        return variable

    path = find_settings_file()
    if not path.is_file():
        return None

    line = find_line(path.read_text(encoding="utf-8"), name)
    return None if line is None else f"{path}, line {line}"


def find_variables() -> dict[str, str]:
    """Return the environment variables with our prefix, by the setting's name in lower case."""
    variables: dict[str, str] = {}
    for variable in os.environ:
        if variable.upper().startswith(PREFIX) and variable.upper() != FILE_VARIABLE:
            variables[variable[len(PREFIX) :].lower()] = variable

    return variables


def read_variables(settings: Collection[str]) -> dict[str, str]:
    """Return the values of settings in the environment, by their names."""
    variables = find_variables()
    return {name: os.environ[variables[name]] for name in settings if name in variables}


def list_unknown_variables(settings: Iterable[str]) -> list[tuple[str, str]]:
    """Return variables with our prefix that are no settings, each with the name after the prefix.

    Variables that a container platform sets are left out, because they are no mistakes.
    """
    known = set(settings)
    unknown: list[tuple[str, str]] = []

    for name, variable in sorted(find_variables().items()):
        assignment = f"{variable}={os.environ[variable]}"
        if name not in known and not _LINKED_SERVICE.match(assignment):
            unknown.append((variable, name))

    return unknown


def find_line(text: str, name: str) -> int | None:
    r"""Return the number of the line in a TOML document that a key or a table begins on.

    >>> find_line('a = 1\n\n"b" = 2\n[c]\n', "b"), find_line("a = 1", "c")
    (3, None)
    """
    key = re.compile(rf"\s*(\[+\s*)?[\"']?{re.escape(name)}[\"']?\s*[=.\]]")
    lines = text.splitlines(keepends=True)

    for number, line in enumerate(lines):
        if not key.match(line):
            continue

        # In a text of several lines, the lines before are not a complete document.
        try:
            tomllib.loads("".join(lines[:number]))
        except tomllib.TOMLDecodeError:
            continue

        return number + 1

    return None


class ExplainedSettings(BaseModel):
    """A model whose fields come from arguments, else the environment, else the settings file.

    Each error of its ValidationError has the place where the value was set as ``ctx["place"]``, and
    a plain message as ``ctx["words"]``. The value is left out, because a URL may have a password.
    """

    def __init__(self, **values: Any) -> None:
        known = type(self).model_fields

        try:
            super().__init__(**{**read_settings_file(), **read_variables(known), **values})
        except ValidationError as error:
            raise explain_error(error, values, known) from None


def explain_error(
    error: ValidationError, arguments: Collection[str], known: Collection[str]
) -> ValidationError:
    """Return the same error with plain messages and the place of each wrong setting.

    ``arguments`` has the names of settings that were passed, ``known`` those of all settings.
    """
    details: list[InitErrorDetails] = []

    for problem in error.errors():
        name = str(problem["loc"][0])
        kind = problem["type"]
        if kind == "extra_forbidden" and isinstance(problem["input"], dict):
            words = "is no setting; settings belong at the top of the file, without a [heading]"
        elif kind == "extra_forbidden":
            words = explain_unknown(name, known)
        elif kind in _MESSAGES:
            words = _MESSAGES[kind].format(**problem.get("ctx", {}))
        else:
            # The message of our own validators, to which pydantic adds a prefix.
            words = problem["msg"].removeprefix("Value error, ")

        place = find_origin(name, arguments) or "the default"
        context = {"place": place, "words": words}
        mistake = PydanticCustomError("wrong_setting", "{words} ({place})", context)
        details.append(InitErrorDetails(type=mistake, loc=problem["loc"], input=None))

    return ValidationError.from_exception_data(error.title, details, hide_input=True)


def explain_unknown(name: str, known: Collection[str]) -> str:
    """Return a message about an unknown setting.

    >>> explain_unknown("workspace", ["workspace_dir", "agent_dir"])
    'is no setting; did you mean workspace_dir?'
    """
    if name in _OPTIONS:
        return f"is no setting; it is an option: abilities serve --{name}"

    suggestion = suggest_value(name, known)
    if suggestion is None:
        return "is no setting; docs/settings.md lists them"

    return f"is no setting; did you mean {suggestion}?"


def insert_default(names: tuple[str, ...], default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names; if ``...`` is one of them, it is replaced by the default names.

    >>> insert_default(("...", "vendor"), ("node_modules", "venv"))
    ('node_modules', 'venv', 'vendor')
    """
    if _DEFAULT not in names:
        return names

    return (*default, *(name for name in names if name != _DEFAULT))


class Settings(ExplainedSettings):
    """The settings: what an agent may read, how much of it, and where memories are stored.

    Every field can be set by an argument, by an environment variable such as
    ``ABILITIES_WORKSPACE_DIR``, or in a TOML file. ``ABILITIES_CONFIG`` names that file; by default
    it is ``~/.abilities/config.toml``, if it exists.

    Settings are values: they name directories and files, but do not open them. Raises pydantic's
    ValidationError for an unknown setting and for a value that is not allowed, with the place where
    it was set, and ValueError for a settings file that cannot be read or is not TOML.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,  # default directories become absolute too
    )

    store_url: str = Field(
        default="sqlite:///~/.abilities/memory.db", description="Where memories are stored."
    )
    max_memories: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of memories per namespace (default: unlimited).",
    )
    recall_language: LanguageName = Field(
        default="english",
        description="Language of the words that recall compares, when a store is created.",
    )
    history_days: int = Field(
        default=90,
        ge=0,
        le=36_500,
        description="Days for which changes can be undone; 0 keeps no history.",
    )
    history_max_mb: int = Field(
        default=256,
        ge=1,
        le=1_000_000,
        description="Maximum size of the history per namespace in MiB; the oldest goes first.",
    )
    allow_purge: bool = Field(
        default=False,
        description="Let callers without a token delete memories together with their history.",
    )

    agent_dir: AbsolutePath = Field(
        default=HOME / "agent",
        description="The agent's own directory, where files are looked for first.",
    )
    workspace_dir: AbsolutePath = Field(
        default=Path(),
        description=(
            "The directory the agent works in, where files are looked for second. By default the "
            "current one; there is none if that must not be shared, such as '/' or the home "
            "directory."
        ),
    )
    namespace: Namespace = Field(
        default="default",
        description="Whose files and memories these are; replaces {namespace} in both directories.",
    )
    read_namespaces: Annotated[OtherNamespaces, _SPLIT] = Field(
        default=(),
        description="Up to 3 further namespaces whose memories callers without a token may read.",
    )
    timezone: TimeZone | None = Field(
        default=None,
        description="Time zone of 'today', such as 'Europe/Berlin' (default: the system's).",
    )
    max_response_bytes: int = Field(
        default=64_000,
        ge=40_000,
        le=1_000_000,
        description="Maximum size of one whole answer as it is sent, in bytes (default: 64000, and "
        "1000000 with compat).",
    )
    output_format: OutputFormat = Field(
        default="text",
        description="Format of what models read on MCP and LangChain, if a call names none.",
    )
    detail: Detail | None = Field(
        default=None,
        description="Fields in answers if a call does not say: full or concise. By default, models "
        "get concise answers and programs full ones.",
    )
    follow_symlinks: Literal["within", "never"] = Field(
        default="within",
        description="Follow symbolic links that stay beneath their root, or none at all.",
    )
    deny_hardlinks: bool = Field(
        default=False, description="Refuse files that have more than one name."
    )
    deny: Names = Field(
        default=list_denied(),
        description="Names that are never shared; '!name' is an exception. Replaces the default "
        "list, for which '...' stands.",
    )
    skip: Names = Field(
        default=SKIPPED_FOLDERS,
        description="Folders that lists and searches enter only if the pattern names them; '...' "
        "stands for the default list.",
    )
    redact: bool = Field(
        default=True,
        description="Replace secrets in the contents of files and notes by '[secret: kind]'.",
    )
    remembered: bool = Field(
        default=True, description="Show with a file that is read what is remembered about it."
    )
    memory_layout: Literal["openclaw", "clawpress"] = Field(
        default="openclaw", description="How the agent's notes are named."
    )
    long_term_file: str | None = Field(
        default=None, description="Name of the lasting notes, instead of the layout's."
    )
    short_term_file: str | None = Field(
        default=None, description="Name of a day's notes, for example 'notes/%Y-%m-%d.md'."
    )
    tools: Names = Field(
        default=("all",),
        description="Abilities that are offered: all, lean, files, memory, or their names.",
    )
    disabled: Names = Field(default=(), description="Abilities that are not offered.")
    plugins: bool = Field(default=True, description="Load abilities that other packages declare.")
    embedder: str | None = Field(
        default=None,
        description="By which recall ranks by meaning too: model2vec:MODEL, fastembed:MODEL, or an "
        "entry point.",
    )
    structured: bool = Field(
        default=False,
        description="MCP: also send outputSchema and structuredContent, every payload twice.",
    )
    compat: Compat | None = Field(
        default=None,
        description="'kv-memory' serves its clients: two HTTP addresses answer as it did, and "
        "memory_get and bulk_read_memory take its arguments session and sortLinks.",
    )

    tokens_file: AbsolutePath = Field(
        default=HOME / "tokens.json",
        description="File with the hashes of a server's tokens.",
    )
    require_tokens: bool | None = Field(
        default=None,
        description=(
            "Whether every caller of a server needs a token (default: once there was one). false "
            "opens a server to all on this machine; beyond it a token is always needed."
        ),
    )
    shared_files: bool = Field(
        default=False,
        description="Let tokens of several namespaces read the same files, without {namespace}.",
    )
    allowed_hosts: Names = Field(
        default=(), description="Further host names by which a server may be addressed."
    )
    authorization_servers: Names = Field(
        default=(),
        description="URLs of the OAuth servers where MCP clients can get a token.",
    )
    oauth: bool = Field(
        default=False,
        description="Let MCP clients such as claude.ai and ChatGPT get tokens of their own, with "
        "the approval of a token's holder.",
    )
    public_url: str | None = Field(
        default=None,
        description="The address at which others reach a server, such as "
        "'https://memory.example.org'; its host may be used like one of allowed_hosts.",
    )
    chatgpt: bool = Field(
        default=False,
        description="Offer search and fetch too, in the form that ChatGPT expects of a connector.",
    )

    @field_validator("store_url")
    @classmethod
    def _check_store_url(cls, value: str) -> str:
        check_store_url(value)
        return value

    @model_validator(mode="before")
    @classmethod
    def _raise_bound_for_programs(cls, values: object) -> object:
        """Raise the default bound with ``compat``: the clients of kv-memory are programs."""
        fields = as_object(values)
        if fields is None or not fields.get("compat"):
            return values

        return {"max_response_bytes": 1_000_000, **fields}

    @field_validator("tools")
    @classmethod
    def _check_tools(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value:
            raise ValueError("must name a profile or an ability; all is the default")

        return value

    @field_validator("deny")
    @classmethod
    def _insert_denied(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return insert_default(value, list_denied())

    @field_validator("skip")
    @classmethod
    def _check_skip(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any("/" in name or "*" in name for name in value):
            raise ValueError("must be names of folders, without '/' and '*'")

        return insert_default(value, SKIPPED_FOLDERS)

    @field_validator("long_term_file", "short_term_file")
    @classmethod
    def _check_notes_file(cls, value: str | None) -> str | None:
        if value is None:
            return None

        # An absolute path begins with an empty component.
        if {"", ".", ".."} & set(value.split("/")):
            raise ValueError(
                "must name a file beneath the agent directory, for example 'notes/MEMORY.md'"
            )

        return value

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str | None) -> str | None:
        if value is None:
            return None

        match = _PUBLIC_URL.fullmatch(value)
        if match is None or (
            match["scheme"] == "http" and match["host"].strip("[]") not in LOOPBACK
        ):
            raise ValueError(
                "must be an address with https and without a path, such as "
                "'https://memory.example.org'; http is only for this machine"
            )

        return value.removesuffix("/").lower()

    @field_validator("oauth")
    @classmethod
    def _check_oauth(cls, value: bool, info: ValidationInfo) -> bool:
        if value and info.data.get("require_tokens") is False:
            raise ValueError("needs tokens; remove require_tokens = false")
        if value and info.data.get("authorization_servers"):
            raise ValueError("makes this server give the tokens; remove authorization_servers")

        return value

    @property
    def host_names(self) -> tuple[str, ...]:
        """The host names that a server may be addressed by, besides its own address."""
        if self.public_url is None:
            return self.allowed_hosts

        match = _PUBLIC_URL.fullmatch(self.public_url)
        assert match is not None
        return (*self.allowed_hosts, match["host"].strip("[]"))

    @property
    def other_namespaces(self) -> tuple[str, ...]:
        """The namespaces that are read besides the own one, in the order in which they are."""
        return tuple(name for name in dict.fromkeys(self.read_namespaces) if name != self.namespace)

    @property
    def store_path(self) -> Path | None:
        """The file of the memory store; None if the store is a database on a server."""
        return store_path(self.store_url)

    @property
    def history_limits(self) -> HistoryLimits:
        """The limits of a namespace's history, by age and by size."""
        return HistoryLimits(self.history_days, self.history_max_mb * 2**20)

    @property
    def agent_root(self) -> RootPlace:
        """The agent's directory in this namespace; a default one need not exist."""
        path = enter_namespace(self.agent_dir, self.namespace)
        if "agent_dir" not in self.model_fields_set:
            return RootPlace("agent", path, None)

        return RootPlace("agent", path, find_shared_part(self.agent_dir))

    @property
    def workspace_root(self) -> RootPlace | None:
        """The workspace in this namespace; None if there is none.

        The default workspace, the current directory, is left out if it must not be shared, such as
        '/' or the home directory: clients start programs there, and no user has chosen to share it.
        """
        path = enter_namespace(self.workspace_dir, self.namespace)
        is_default = "workspace_dir" not in self.model_fields_set
        if is_default and find_ban(path) is not None:
            return None

        return RootPlace("workspace", path, find_shared_part(self.workspace_dir))

    @property
    def roots(self) -> list[RootPlace]:
        """The directories that files are read from, in the order in which they are searched."""
        if self.workspace_root is None:
            return [self.agent_root]

        return [self.agent_root, self.workspace_root]

    @property
    def policy(self) -> Policy:
        """The rules about which files may be opened beneath the two directories."""
        # No agent may read these files, whatever path leads to them.
        own_places = [
            OwnPlace(str(find_settings_file())),
            OwnPlace(str(self.tokens_file), TOKEN_SUFFIXES),
        ]
        if self.store_path is not None:
            own_places.append(OwnPlace(str(self.store_path), STORE_SUFFIXES))

        return Policy(
            build_deny_list(self.deny),
            self.follow_symlinks == "within",
            self.deny_hardlinks,
            self.redact,
            OwnFiles(own_places, is_store_header),
            frozenset(self.skip),
        )

    @property
    def memory_files(self) -> MemoryFiles:
        """The names of the files with the agent's notes."""
        layout = MEMORY_LAYOUTS[self.memory_layout]

        return MemoryFiles(
            self.long_term_file or layout.long_term,
            self.short_term_file or layout.short_term,
        )

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone that defines 'today'; None is the system's."""
        if not self.timezone:
            return None

        return ZoneInfo(self.timezone)

    def check_roots(self) -> None:
        """Raise ValueError for a directory that must not be shared, or that does not exist.

        A namespace without its own directory has no files yet; only the folder above the
        directories of all namespaces must exist.
        """
        for root in self.roots:
            root.check()

    def check_namespaces(self, namespaces: Iterable[str]) -> None:
        """Raise ValueError if several namespaces would share files, unless shared_files is set."""
        directories = (self.agent_dir, self.workspace_dir)
        are_separate = all(PLACEHOLDER in str(directory) for directory in directories)
        if are_separate or self.shared_files:
            return

        if len(set(namespaces)) > 1:
            raise ValueError(
                "tokens of several namespaces would share files: put {namespace} into agent_dir "
                "and workspace_dir, or set shared_files"
            )

    def for_namespace(self, namespace: str) -> Self:
        """Return the same settings for another namespace.

        Raises ValueError for a name that cannot be a namespace.
        """
        # A copy records which settings were set, so the default agent directory stays optional.
        return self.model_copy(update={"namespace": parse_namespace(namespace)})
