"""The bound of a reply, counted in the format in which it is sent."""

from typing import Literal, NamedTuple

from abilities.helpers.reply.budget import count_fitting_chars, measure_escaped
from abilities.helpers.reply.encoding import text_size

Counting = Literal["json", "text", "both"]
"""How a reply is sent: as JSON, in the text format, or in both at once.

TOON has no counting of its own: such a reply is made as JSON, and again with less room if needed.
"""

_TEXT_REPLY_BYTES = 8
"""What the text format adds to a reply: the first line's end and its first number.

A boundary and two line ends take no more than the name of the content in JSON.
"""


class Bound(NamedTuple):
    """The most bytes of one reply, and how they are counted.

    In both formats at once, each part counts as in the format in which it is larger.
    """

    max_bytes: int
    counting: Counting = "json"

    @property
    def room(self) -> int:
        """The bytes for the JSON of a reply with empty contents, and for its contents."""
        if self.counting == "json":
            return self.max_bytes

        return self.max_bytes - _TEXT_REPLY_BYTES

    def measure_content(self, content: str) -> int:
        """Return the bytes that a content takes."""
        if self.counting == "text":
            return text_size(content)

        return measure_escaped(content)

    def count_fitting_chars(self, content: str, room: int) -> int:
        """Return how many characters of a content fit into ``room`` bytes."""
        if self.counting != "text":
            return count_fitting_chars(content, room)

        fitting = content.encode()[: max(room, 0)]
        return len(fitting.decode(errors="ignore"))  # of the last character a part may be left
