"""Links of other systems, adjusted to our limits."""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from abilities.declarations.limits import MAX_LINK_TERM_CHARS, MAX_LINK_TYPE_CHARS
from abilities.declarations.values import JsonObject
from abilities.helpers.store.model import LinkRow
from abilities.helpers.store.names import make_key, to_storable
from abilities.helpers.transfer.fitting import clamp_weight, shorten
from abilities.helpers.transfer.foreign import ForeignLink

REASONS = {
    "link_types": f"A link's type is over {MAX_LINK_TYPE_CHARS} characters; metadata.{{}} has it.",
    "link_terms": f"A link's term is over {MAX_LINK_TERM_CHARS} characters; metadata.{{}} has it.",
    "link_weights": "A link's weight is not from 0 to 1; metadata.{} has it.",
    "links": "Links with the same target and type became one; metadata.{} has the others.",
}
"""Why the metadata holds originals of links, by the name that they have there."""


class LimitedLinks(NamedTuple):
    """Links as they can be stored, and the originals of what was changed, by name of `REASONS`."""

    rows: list[LinkRow]
    originals: JsonObject


def limit_links(key: str, links: Sequence[ForeignLink]) -> LimitedLinks:
    """Shorten types and terms, and correct weights.

    If links have the same target and type, the last one counts.
    """
    rows: dict[tuple[str, str], LinkRow] = {}
    originals: defaultdict[str, JsonObject] = defaultdict(dict)
    replaced: list[JsonObject] = []

    for link in links:
        row = _limit_link(key, link, originals)
        existing = rows.get((row.target, row.type), row)
        if existing != row:
            replaced.append(existing.to_data())

        rows[row.target, row.type] = row

    changed: JsonObject = dict(originals)
    if replaced:
        changed["links"] = replaced

    return LimitedLinks(list(rows.values()), changed)


def _limit_link(key: str, link: ForeignLink, originals: defaultdict[str, JsonObject]) -> LinkRow:
    link_type = to_storable(link.type) or "association"
    term = to_storable(link.term)

    row = LinkRow(
        key,
        make_key(link.name),
        shorten(link_type, MAX_LINK_TYPE_CHARS),
        clamp_weight(link.weight),
        shorten(term, MAX_LINK_TERM_CHARS),
    )

    if row.type != link_type:
        originals["link_types"][row.type] = link_type
    if row.term != term:
        originals["link_terms"][row.term] = term
    if row.weight != link.weight:
        originals["link_weights"][link.name] = str(link.weight)

    return row
