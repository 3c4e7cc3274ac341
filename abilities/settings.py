"""Settings: from arguments, then the environment (``ABILITIES_…``), then a TOML file, then defaults."""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal, Self
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
from abilities.helpers.files.confinement import Policy, Root, is_forbidden_root
from abilities.helpers.files.deny import DenyList
from abilities.helpers.memory.targets import MemoryFiles
from abilities.helpers.stores.opening import check_store_url, store_path

HOME = Path("~/.abilities")

DENY = (
    ".env", ".env.*", "!.env.example", "!.env.sample", "!.env.template",
    "*.pem", "*.key", "*.p12", "id_rsa*", "id_ed25519*", "id_ecdsa*",
    ".netrc", ".npmrc", ".pypirc", ".pgpass",
    ".ssh/**", ".git/**", ".aws/**", ".kube/**", ".gnupg/**", ".docker/config.json", ".abilities/**",
)  # fmt: skip

MEMORY_LAYOUTS = {
    "openclaw": MemoryFiles("MEMORY.md", "memory/%Y-%m-%d.md"),
    "clawpress": MemoryFiles("memory.md", "memory-%d%m%Y.md"),
}

Names = Annotated[tuple[str, ...], NoDecode]
"""Several names; one string with commas between them in the environment."""


class Settings(BaseSettings):
    """What an agent may read, and how much of it.

    Every field can be given as an argument, as an environment variable (``ABILITIES_WORKSPACE_DIR``), or
    in a TOML file named by ``ABILITIES_CONFIG`` (by default ``~/.abilities/config.toml``, if it is there).
    Raises pydantic's ValidationError for a value that is out of its range.
    """

    model_config = SettingsConfigDict(
        env_prefix="ABILITIES_", frozen=True, extra="forbid", validate_default=True
    )

    agent_dir: Path = Field(
        default=HOME / "agent", description="The agent's own directory; asked first."
    )
    workspace_dir: Path = Field(
        default=Path(), description="The directory the agent works in; asked second."
    )
    store_url: str = Field(
        default="sqlite:///~/.abilities/memory.db", description="Where memories are stored."
    )
    max_memories: int | None = Field(
        default=None, ge=1, description="Memories a namespace may hold; no limit."
    )
    namespace: str = Field(
        default="default",
        pattern=rf"^{NAMESPACE}$",
        description="Whose files and memories these are; replaces {namespace} in both directories.",
    )
    timezone: str | None = Field(
        default=None, description="What 'today' means, as 'Europe/Berlin'; the system's."
    )
    max_response_bytes: int = Field(
        default=64_000,
        ge=40_000,
        le=1_000_000,
        description="Bytes of one whole answer as JSON, at most.",
    )
    follow_symlinks: Literal["within", "never"] = Field(
        default="within",
        description="Links that stay beneath their root are followed, or none at all.",
    )
    deny_hardlinks: bool = Field(
        default=False, description="Refuse files that have more than one name."
    )
    deny: Names = Field(
        default=DENY,
        description="Names never shared; '!name' is an exception. Replaces the default.",
    )
    memory_layout: Literal["openclaw", "clawpress"] = Field(
        default="openclaw", description="How notes are named."
    )
    long_term_file: str | None = Field(
        default=None, description="The lasting notes' name, instead of the layout's."
    )
    short_term_file: str | None = Field(
        default=None, description="A day's notes, as 'notes/%Y-%m-%d.md'."
    )
    disabled: Names = Field(default=(), description="Abilities that are not offered.")
    plugins: bool = Field(default=True, description="Load abilities that other packages declare.")
    structured: bool = Field(
        default=False,
        description="MCP: send outputSchema and structuredContent too; the payload then travels twice.",
    )

    tokens_file: Path = Field(
        default=HOME / "tokens.json", description="Where the hashes of a server's tokens are."
    )
    shared_files: bool = Field(
        default=False,
        description="Serve the same files to the tokens of several namespaces, without {namespace}.",
    )
    allowed_hosts: Names = Field(
        default=(), description="Further names by which a server may be addressed."
    )
    authorization_servers: Names = Field(
        default=(),
        description="Where MCP clients may ask for a token (OAuth); URLs of servers that hand yours out.",
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
        """Arguments first, then the environment, then the TOML file."""
        file = Path(os.environ.get("ABILITIES_CONFIG", HOME / "config.toml")).expanduser()
        return init_settings, env_settings, TomlConfigSettingsSource(settings_cls, file)

    @field_validator("deny", "disabled", "allowed_hosts", "authorization_servers", mode="before")
    @classmethod
    def _split_names(cls, value: Any) -> Any:
        return (
            tuple(name.strip() for name in value.split(",") if name.strip())
            if isinstance(value, str)
            else value
        )

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, value: str | None) -> str | None:
        try:
            return value and ZoneInfo(value).key
        except (ValueError, OSError, KeyError):
            raise ValueError(
                "is not a known time zone; use a name such as 'Europe/Berlin'"
            ) from None

    @field_validator("long_term_file", "short_term_file")
    @classmethod
    def _relative_file(cls, value: str | None) -> str | None:
        if value is not None and (
            not value or value.startswith("/") or {"", ".", ".."} & set(value.split("/"))
        ):
            raise ValueError("must name a file beneath the agent directory, as 'notes/MEMORY.md'")
        return value

    @field_validator("agent_dir", "workspace_dir", "tokens_file")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("store_url")
    @classmethod
    def _known_store(cls, value: str) -> str:
        check_store_url(value)
        return value

    @property
    def store_path(self) -> Path | None:
        """The file of the memory store; None if the store is a database on a server."""
        return store_path(self.store_url)

    @property
    def agent_root(self) -> Root:
        """The agent's directory; an unset one that never existed is empty."""
        return Root(
            "agent",
            self._in_namespace(self.agent_dir),
            optional="agent_dir" not in self.model_fields_set,
        )

    @property
    def workspace_root(self) -> Root:
        """The workspace."""
        return Root("workspace", self._in_namespace(self.workspace_dir))

    @property
    def policy(self) -> Policy:
        """What may be opened beneath the roots."""
        return Policy(DenyList(self.deny), self.follow_symlinks == "within", self.deny_hardlinks)

    @property
    def memory_files(self) -> MemoryFiles:
        """How the agent's notes are named."""
        layout = MEMORY_LAYOUTS[self.memory_layout]
        return MemoryFiles(
            self.long_term_file or layout.long_term, self.short_term_file or layout.short_term
        )

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone of 'today'; None is the system's."""
        return ZoneInfo(self.timezone) if self.timezone else None

    def check_roots(self) -> None:
        """Raises ValueError when a whole home directory or file system would be shared."""
        for name, root in (("workspace_dir", self.workspace_root), ("agent_dir", self.agent_root)):
            if is_forbidden_root(root.path):
                raise ValueError(
                    f"{name} must not be '/' or your home directory; name a folder that you want to share"
                )

    def check_namespaces(self, namespaces: Iterable[str]) -> None:
        """Raises ValueError when several namespaces would see the same files, and nobody said that they may."""
        apart = all("{namespace}" in str(path) for path in (self.agent_dir, self.workspace_dir))
        if len(set(namespaces)) > 1 and not apart and not self.shared_files:
            raise ValueError(
                "tokens of several namespaces would share files: put {namespace} into agent_dir and workspace_dir, "
                "or set shared_files"
            )

    def for_namespace(self, namespace: str) -> Self:
        """The same settings for another namespace. Raises ValueError for a name that cannot be one."""
        if not re.fullmatch(NAMESPACE, namespace):
            raise ValueError(
                "a namespace is 1 to 63 of a-z, 0-9, '_' and '-', and begins with a letter or digit"
            )
        return self.model_copy(update={"namespace": namespace})

    def _in_namespace(self, path: Path) -> Path:
        return Path(str(path).replace("{namespace}", self.namespace))
