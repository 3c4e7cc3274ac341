"""Texts and weights of other systems, made to fit our limits; always in the same way."""

import math

from abilities.helpers.store.names import HASH_MARK, hash_text


def shorten(text: str, limit: int) -> str:
    """Shorten a text if it is too long; a hash tells it from others with the same beginning."""
    if len(text) <= limit:
        return text

    return f"{text[: limit - HASH_MARK]}~{hash_text(text)}"


def clamp_weight(weight: float) -> float:
    """Return the nearest weight from 0 to 1; the default of 0.5 for one that is not finite."""
    if not math.isfinite(weight):
        return 0.5

    return float(min(max(0.0, weight), 1.0))  # of two zeros the first stays, which is not -0.0
