"""The settings of the memory store: where it is, what it holds, and how long it keeps a history."""

from pathlib import Path

from pydantic import Field, field_validator

from abilities.helpers.search.terms import LanguageName
from abilities.helpers.store.history import HistoryLimits
from abilities.helpers.store.opening import check_store_url, store_path
from abilities.setting_errors import ExplainedSettings

_MIB = 2**20


class StoreSettings(ExplainedSettings):
    """Where memories are kept, and how long what changes replaced is kept too."""

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
    def history_limits(self) -> HistoryLimits:
        """How long a namespace keeps its history, and how much of it."""
        return HistoryLimits(self.history_days, self.history_max_mb * _MIB)
