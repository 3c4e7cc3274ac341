"""All built-in abilities, for those who need more than one."""

from abilities.builtin.index import NAMES, load_built_in
from abilities.definition import Ability

BUILT_IN: tuple[Ability, ...] = tuple(load_built_in(name).describe_beside(NAMES) for name in NAMES)
"""The built-in abilities, in the order in which every surface lists them, if all are offered."""
