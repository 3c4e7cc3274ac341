"""The registry: which abilities there are, in a fixed order, and how to call them.

A built-in ability runs on the caller's event loop. Any other, of a plugin or of an application,
runs on a loop of its package, where it cannot hold up other calls.
"""

from collections.abc import Container, Iterable, Iterator
from functools import partial

from abilities.declarations.faults import Fault, Refused
from abilities.declarations.suggestions import suggest_ability
from abilities.declarations.values import JsonObject
from abilities.definition import Ability, Context, LazyAbility
from abilities.errors import AbilityError
from abilities.execution import run_ability
from abilities.helpers.threads.loops import IsolatedLoops
from abilities.replies import Reply, build_failed_reply


class AbilityRegistry:
    """Abilities by name, iterated in the order in which they were added.

    >>> registry = AbilityRegistry()
    >>> len(registry), "file_read_bulk" in registry
    (0, False)
    """

    def __init__(
        self,
        abilities: Iterable[Ability | LazyAbility] = (),
        *,
        read_only: bool = False,
        loops: IsolatedLoops | None = None,
    ) -> None:
        self._abilities: dict[str, Ability | LazyAbility] = {}
        self._described: dict[str, Ability] = {}
        self._loops = loops or IsolatedLoops()
        self._sealed = False
        for ability in abilities:
            self.add(ability)

        # Sealed last, because a view is filled like any other registry.
        self._sealed = read_only

    def add(self, ability: Ability | LazyAbility) -> None:
        """Add an ability; a lazy one is loaded when it is first needed.

        Raises ValueError if its name is taken, and TypeError if this registry is a read-only view.
        """
        if self._sealed:
            raise TypeError("this view of a registry is read-only")

        if ability.name in self._abilities:
            raise ValueError(f"there is already an ability named {ability.name}")

        self._abilities[ability.name] = ability
        self._described.clear()  # a description may name the new one

    def get(self, name: str) -> Ability | None:
        """Return the ability of a name, or None. Its description names only others in here."""
        if name in self._described:
            return self._described[name]

        ability = self._abilities.get(name)
        if isinstance(ability, LazyAbility):
            ability = ability.load()
            self._abilities[name] = ability
        if ability is None:
            return None

        self._described[name] = ability.describe_beside(self._abilities)
        return self._described[name]

    @property
    def names(self) -> list[str]:
        """The names of the abilities, in order; to know them loads none."""
        return list(self._abilities)

    def only(self, *names: str, read_only: bool = False) -> "AbilityRegistry":
        """Return a read-only view of the named abilities, or of all if no name is given.

        With ``read_only`` the view leaves out abilities that change something. Raises KeyError for
        a name that is not in the registry.
        """
        for name in names:
            if name not in self._abilities:
                raise KeyError(f"{name}: {self.explain_unknown(name).message}")

        view = self.select(names or self._abilities)
        if not read_only:
            return view

        return view.select([ability.name for ability in view if ability.read_only])

    def select(self, names: Container[str]) -> "AbilityRegistry":
        """Return a read-only view of the abilities whose names are among these; it may be empty."""
        chosen = [ability for name, ability in self._abilities.items() if name in names]
        return AbilityRegistry(chosen, read_only=True, loops=self._loops)

    async def close(self) -> None:
        """End the threads of abilities that are not built in, and cancel the calls on them.

        An open application does this for its own registry. Elsewhere it may be left out: the
        threads do not keep the process from exiting.
        """
        await self._loops.close()

    def explain_unknown(self, name: str) -> Refused:
        """Return the refusal of a name that no ability has, with the one that it probably means."""
        suggestion = suggest_ability(name, self._abilities)
        expected = None
        if suggestion is None:
            expected = {"one_of": list(self._abilities)}

        return Refused("unknown_ability", expected=expected, did_you_mean=suggestion)

    async def call(self, name: str, arguments: object, context: Context) -> JsonObject:
        """Call an ability and return its answer as a JSON-able dict.

        If the arguments ask for a format, the answer fits as such: `render` gives the text that a
        surface sends, within the bound. Raises AbilityError, and nothing else but cancellation.
        """
        reply = await self._run(name, arguments, context)
        return reply.payload

    async def reply(self, name: str, arguments: object, context: Context) -> Reply:
        """Call an ability for a surface.

        The reply is in the format that the arguments or the context name. If the call fails as a
        whole, the reply holds the fault, as JSON.
        """
        try:
            return await self._run(name, arguments, context)
        except AbilityError as error:
            return build_failed_reply(error.fault)

    async def _run(self, name: str, arguments: object, context: Context) -> Reply:
        ability = self.get(name)
        if ability is None:
            raise AbilityError(Fault.from_refusal(self.explain_unknown(name)))

        if context.read_only and not ability.read_only:
            raise AbilityError(Fault.from_reason("scope"))

        if ability.is_built_in:
            return await run_ability(ability, arguments, context)

        run = partial(run_ability, ability, arguments, context)
        try:
            return await self._loops.run(ability.package, run)
        except AbilityError:
            raise
        except Exception as error:  # an exit, or the refusal of the loops
            raise AbilityError(Fault.from_exception(error, name)) from None

    def __iter__(self) -> Iterator[Ability]:
        for name in self.names:
            ability = self.get(name)
            assert ability is not None  # nothing is ever taken out
            yield ability

    def __len__(self) -> int:
        return len(self._abilities)

    def __contains__(self, name: object) -> bool:
        return name in self._abilities

    def __repr__(self) -> str:
        return f"<AbilityRegistry: {', '.join(self._abilities) or 'empty'}>"
