"""All built-in abilities."""

from abilities.builtin.index import NAMES, load_built_in
from abilities.definition import Ability

BUILT_IN: tuple[Ability, ...] = tuple(load_built_in(name).describe_beside(NAMES) for name in NAMES)
"""They stand in the order in which every surface lists them, if all are offered."""
