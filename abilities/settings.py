"""Settings, from arguments, the environment (``ABILITIES_…``), a TOML file, or defaults."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import ConfigDict, Field, field_validator, model_validator

from abilities.declarations.fields import Detail, OutputFormat
from abilities.declarations.memory import Namespace, parse_namespace
from abilities.declarations.moments import TimeZone
from abilities.declarations.values import as_object
from abilities.helpers.files.confinement import SKIPPED_FOLDERS, Policy
from abilities.helpers.files.deny import build_deny_list
from abilities.helpers.files.own_files import OwnFiles, OwnPlace
from abilities.helpers.files.roots import (
    PLACEHOLDER,
    RootPlace,
    enter_namespace,
    find_ban,
    find_shared_part,
)
from abilities.helpers.files.secret_names import list_denied
from abilities.helpers.memory.targets import MEMORY_LAYOUTS, MemoryFiles
from abilities.helpers.store.opening import STORE_SUFFIXES, is_store_header
from abilities.helpers.tokens import TOKEN_SUFFIXES
from abilities.origins import HOME as HOME
from abilities.origins import find_settings_file as find_settings_file
from abilities.setting_names import Names, insert_default
from abilities.setting_names import split_names as split_names
from abilities.store_settings import StoreSettings

Compat = Literal["kv-memory"]
"""Systems whose clients can be served."""


class Settings(StoreSettings):
    """What an agent may read, how much of it, and where memories are kept.

    Every field can be set by an argument, by an environment variable such as
    ``ABILITIES_WORKSPACE_DIR``, or in a TOML file. ``ABILITIES_CONFIG`` names that file; by default
    it is ``~/.abilities/config.toml``, if that exists.

    Settings are values: they name directories and files, and open none of them. Raises pydantic's
    ValidationError for an unknown setting and for a value that is not allowed, with the place where
    it was set, and ValueError for a file that cannot be read or is not TOML.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True,
        extra="forbid",
        validate_default=True,  # default directories become absolute too
    )

    agent_dir: Path = Field(
        default=HOME / "agent",
        description="The agent's own directory, where files are looked for first.",
    )
    workspace_dir: Path = Field(
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
        default=None, description="Entry point by which recall ranks by meaning too."
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

    tokens_file: Path = Field(
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

    @field_validator(
        "deny", "skip", "tools", "disabled", "allowed_hosts", "authorization_servers", mode="before"
    )
    @classmethod
    def _split_names(cls, value: object) -> object:
        return split_names(value) if isinstance(value, str) else value

    @model_validator(mode="before")
    @classmethod
    def _make_room_for_programs(cls, values: object) -> object:
        """The clients of kv-memory are programs, which take larger answers than models."""
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

    @field_validator("agent_dir", "workspace_dir", "tokens_file")
    @classmethod
    def _make_absolute(cls, value: Path) -> Path:
        try:
            return value.expanduser().absolute()
        except FileNotFoundError:
            raise ValueError(
                "is in the current directory, which does not exist any more; go to another: cd ~"
            ) from None

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

        A default one, the current directory, is none if it must not be shared, such as '/' or the
        home directory: clients start programs there, and nobody asked to share them.
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
        """What may be opened beneath the two directories."""
        return Policy(
            build_deny_list(self.deny),
            self.follow_symlinks == "within",
            self.deny_hardlinks,
            self.redact,
            OwnFiles(self._list_own_places(), is_store_header),
            frozenset(self.skip),
        )

    @property
    def memory_files(self) -> MemoryFiles:
        """How the agent's notes are named."""
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

        A namespace that has no directory of its own yet has no files; only the folder that holds
        those directories must exist.
        """
        for root in self.roots:
            root.check()

    def check_namespaces(self, namespaces: Iterable[str]) -> None:
        """Raise ValueError if several namespaces would see the same files without shared_files."""
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
        # A copy keeps which settings were set, so that the default agent directory stays optional.
        return self.model_copy(update={"namespace": parse_namespace(namespace)})

    def _list_own_places(self) -> list[OwnPlace]:
        """Return the files that no agent may read, whatever leads to them."""
        places = [
            OwnPlace(str(find_settings_file())),
            OwnPlace(str(self.tokens_file), TOKEN_SUFFIXES),
        ]
        if self.store_path is not None:
            places.append(OwnPlace(str(self.store_path), STORE_SUFFIXES))

        return places
