"""Names of time zones."""

from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator


def parse_time_zone(name: str) -> str:
    """Return the name of a time zone. Raises ValueError for one that is not known."""
    if not name:
        return name

    try:
        return ZoneInfo(name).key
    except (ValueError, OSError, KeyError):
        raise ValueError("is not a known time zone; use a name such as 'Europe/Berlin'") from None


TimeZone = Annotated[str, AfterValidator(parse_time_zone)]
"""A time zone by its name, such as 'Europe/Berlin'; an empty name is the system's."""
