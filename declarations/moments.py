"""Times and versions: when a memory expires, and which version a change expects."""

import re
from datetime import UTC, datetime
from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field

from abilities.declarations.fields import Checked, Integer, Unsaid, build_error
from abilities.declarations.limits import MAX_SAFE_INTEGER
from abilities.declarations.values import format_utc, utc_now


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


TIME_FORM = "RFC 3339, such as 2027-01-31T09:00:00Z"
"""What a time looks like, in words."""

FUTURE_FORM = f"a time in the future in {TIME_FORM}; '' for none"
"""What `expires_at` can be, in words."""

_DAY = r"((0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-9])|(0[13-9]|1[0-2])-30|(0[13578]|1[02])-31)"
_TIME = r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,9})?"
_ZONE = r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
TIME_PATTERN = f"^[1-9][0-9]{{3}}-{_DAY}T{_TIME}{_ZONE}$"
"""The form of a time (RFC 3339, section 5.6), except for when February has 29 days."""


def parse_time(text: str) -> str | None:
    """Return a time in UTC with milliseconds, as it is stored; None if it is no time.

    >>> parse_time("2027-01-31T10:00:00+01:00")
    '2027-01-31T09:00:00.000Z'
    """
    # The pattern's own '$' would accept a line feed at the end.
    if not re.fullmatch(TIME_PATTERN[1:-1], text):
        return None

    # Python's own parser takes six digits at most.
    text = re.sub(r"(\.[0-9]{6})[0-9]+", r"\1", text)
    try:
        return format_utc(datetime.fromisoformat(text).astimezone(UTC))
    except (ValueError, OverflowError):  # the 29th of a short February; the year 10000
        return None


def _check_time(text: str) -> str:
    time = parse_time(text)
    if time is None:
        raise build_error("invalid_format", format=TIME_FORM)

    return time


def _check_expiry(text: str) -> str:
    """Return when a memory expires, in UTC; '' for one that stays."""
    if not text:
        return ""

    time = parse_time(text)
    if time is None or time <= utc_now():
        raise build_error("invalid_format", format=FUTURE_FORM)

    return time


Time = Annotated[str, Checked(_check_time, pattern=TIME_PATTERN)]
"""A time, normalized to UTC with milliseconds."""

Expiry = Annotated[str, Checked(_check_expiry, pattern=f"^$|{TIME_PATTERN}")]
"""When a memory expires, or '' for never."""

Version = Annotated[int, Field(ge=0, le=MAX_SAFE_INTEGER), Unsaid("minimum", "maximum"), Integer]

RestoredVersion = Annotated[
    int,
    Field(ge=1, le=MAX_SAFE_INTEGER),
    Unsaid("minimum", "maximum", "description"),
    Integer,
]

IF_VERSION = "Only if the memory has this version; 0 if there is none."
"""What `if_version` means, in words."""

IfVersion = Annotated[
    Version | None,
    Field(description=IF_VERSION),
    Unsaid("description"),
]
"""The version that a change expects; None for any."""

ReplacedVersion = Annotated[
    int | None,
    Field(
        description="Present if other content was stored there: its version, which can be restored."
    ),
]
"""The version whose content was replaced; None if none was."""

EXPIRY = "RFC 3339; then archived."
"""What `expires_at` means, in words."""

ExpiresAt = Annotated[Expiry | None, Field(description=EXPIRY)]
