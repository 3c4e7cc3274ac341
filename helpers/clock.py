"""The time as everything of ours is dated."""

from datetime import UTC, datetime


def now() -> str:
    """This moment: RFC 3339 UTC in milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
