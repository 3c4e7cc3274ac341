"""Settings, from arguments, the environment (``ABILITIES_…``), a TOML file, or defaults."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self
from zoneinfo import ZoneInfo

from pydantic import Field, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from abilities.declarations.memory import NAMESPACE
from abilities.helpers.files.confinement import Policy, is_forbidden_root
from abilities.helpers.files.deny import DenyList
from abilities.helpers.memory.targets import MemoryFiles
from abilities.helpers.stores.opening import check_store_url, store_path

HOME = Path("~/.abilities")
"""Where everything is by default."""

DENY = (
    ".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template",
    "*.pem", "*.key", "*.p12", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    ".netrc", ".npmrc", ".pypirc", ".pgpass",
    ".ssh/**", ".git/**", ".aws/**", ".kube/**", ".gnupg/**", ".docker/config.json",
    ".abilities/**",
)  # fmt: skip
"""Names that are never shared by default: credentials, and what belongs to version control."""

MEMORY_LAYOUTS = {
    "openclaw": MemoryFiles("MEMORY.md", "memory/%Y-%m-%d.md"),
    "clawpress": MemoryFiles("memory.md", "memory-%d%m%Y.md"),
}
"""How an agent's notes are named, by the name of the layout."""

Names = Annotated[tuple[str, ...], NoDecode]
"""Several names; in the environment one string, with commas between them."""


class Settings(BaseSettings):
    """What an agent may read, how much of it, and where memories are kept.

    Every field can be set by an argument, by an environment variable such as
    ``ABILITIES_WORKSPACE_DIR``, or in a TOML file. ``ABILITIES_CONFIG`` names that file; by default
    it is ``~/.abilities/config.toml``, if that exists.

    Settings are values: they name directories and files, and open none of them. Raises pydantic's
    ValidationError for an unknown setting and for a value that is not allowed.
    """

    model_config: ClassVar[SettingsConfigDict] = SettingsConfigDict(
        env_prefix="ABILITIES_",
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
        description="The directory the agent works in, where files are looked for second.",
    )
    store_url: str = Field(
        default="sqlite:///~/.abilities/memory.db", description="Where memories are stored."
    )
    max_memories: int | None = Field(
        default=None,
        ge=1,
        description="Maximum number of memories per namespace (default: unlimited).",
    )
    namespace: str = Field(
        default="default",
        pattern=rf"^{NAMESPACE}$",
        description="Whose files and memories these are; replaces {namespace} in both directories.",
    )
    timezone: str | None = Field(
        default=None,
        description=(
            "Time zone that defines 'today', for example 'Europe/Berlin' (default: the system's)."
        ),
    )
    max_response_bytes: int = Field(
        default=64_000,
        ge=40_000,
        le=1_000_000,
        description="Maximum size of one whole answer as JSON, in bytes.",
    )
    follow_symlinks: Literal["within", "never"] = Field(
        default="within",
        description="Follow symbolic links that stay beneath their root, or none at all.",
    )
    deny_hardlinks: bool = Field(
        default=False, description="Refuse files that have more than one name."
    )
    deny: Names = Field(
        default=DENY,
        description="Names that are never shared; '!name' is an exception. Replaces the default.",
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
    disabled: Names = Field(default=(), description="Abilities that are not offered.")
    plugins: bool = Field(default=True, description="Load abilities that other packages declare.")
    structured: bool = Field(
        default=False,
        description="MCP: also send outputSchema and structuredContent, every payload twice.",
    )

    tokens_file: Path = Field(
        default=HOME / "tokens.json",
        description="File with the hashes of a server's tokens.",
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

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Tell pydantic the order: arguments, then the environment, then the TOML file."""
        file = Path(os.environ.get("ABILITIES_CONFIG", HOME / "config.toml")).expanduser()
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)

    @field_validator("deny", "disabled", "allowed_hosts", "authorization_servers", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        if not isinstance(value, str):
            return value

        names = [name.strip() for name in value.split(",")]
        return tuple(name for name in names if name)

    @field_validator("timezone")
    @classmethod
    def _check_timezone(cls, value: str | None) -> str | None:
        if not value:
            return value

        try:
            return ZoneInfo(value).key
        except (ValueError, OSError, KeyError):
            raise ValueError(
                "is not a known time zone; use a name such as 'Europe/Berlin'"
            ) from None

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
        return value.expanduser().absolute()

    @field_validator("store_url")
    @classmethod
    def _check_store_url(cls, value: str) -> str:
        check_store_url(value)
        return value

    @property
    def store_path(self) -> Path | None:
        """The file of the memory store; None if the store is a database on a server."""
        return store_path(self.store_url)

    @property
    def agent_path(self) -> Path:
        """The agent's directory in this namespace."""
        return self._in_namespace(self.agent_dir)

    @property
    def has_default_agent_dir(self) -> bool:
        """Whether nobody set agent_dir; then the directory need not exist."""
        return "agent_dir" not in self.model_fields_set

    @property
    def workspace_path(self) -> Path:
        """The workspace in this namespace."""
        return self._in_namespace(self.workspace_dir)

    @property
    def policy(self) -> Policy:
        """What may be opened beneath the two directories."""
        return Policy(DenyList(self.deny), self.follow_symlinks == "within", self.deny_hardlinks)

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
        """Raise ValueError if a whole home directory or file system would be shared."""
        paths = {"workspace_dir": self.workspace_path, "agent_dir": self.agent_path}

        for name, path in paths.items():
            if is_forbidden_root(path):
                raise ValueError(
                    f"{name} must not be '/' or your home directory; "
                    "name a folder that you want to share"
                )

    def check_namespaces(self, namespaces: Iterable[str]) -> None:
        """Raise ValueError if several namespaces would see the same files without shared_files."""
        directories = (self.agent_dir, self.workspace_dir)
        are_separate = all("{namespace}" in str(directory) for directory in directories)
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
        if not re.fullmatch(NAMESPACE, namespace):
            raise ValueError(
                "a namespace is 1 to 63 of a-z, 0-9, '_' and '-', and begins with a letter or digit"
            )

        # A copy keeps which settings were set, so that the default agent directory stays optional.
        return self.model_copy(update={"namespace": namespace})

    def _in_namespace(self, path: Path) -> Path:
        # Not by str.format, which would stumble over any other brace in a path.
        return Path(str(path).replace("{namespace}", self.namespace))
