"""The schema of a target: notes, or a stored memory, as `memory_read_bulk` takes them."""

from abilities.declarations.fields import UNSAID
from abilities.declarations.values import JsonObject

TARGET_SCHEMA: JsonObject = {
    "type": "object",
    "properties": {
        "type": {
            "type": "string",
            "enum": ["long_term", "short_term", "stored"],
            "description": (
                "long_term: the lasting notes; short_term: a day's; stored: a memory by 'key'."
            ),
        },
        "date": {
            "type": "string",
            "description": "short_term: YYYY-MM-DD, 'yesterday' or 'today'.",
            "default": "today",
        },
        "key": {
            "type": "string",
            "description": "stored: the memory's key.",
            UNSAID: ["description"],
        },
        "resume": {
            "type": "string",
            "description": "'byte=…' from an answer's 'next'.",
        },
    },
    "required": ["type"],
    "additionalProperties": False,
}
"""The published schema of one target; `helpers.memory.targets` parses what is really sent."""
