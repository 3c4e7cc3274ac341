"""Who gives way if there are too many: the oldest of the owner that has the most."""

from typing import Generic, TypeVar

Owner = TypeVar("Owner")
Item = TypeVar("Item")


class Crowd(Generic[Owner, Item]):
    """Items of several owners, in the order in which they came.

    If the crowd is bounded by removing what `pick` returns, each owner keeps at least its fair
    share of the room: an owner with less than that never has the most.
    """

    def __init__(self) -> None:
        self._items: dict[Owner, dict[Item, None]] = {}
        self._owners: dict[Item, Owner] = {}

    def __len__(self) -> int:
        return len(self._owners)

    def __contains__(self, item: Item) -> bool:
        return item in self._owners

    def add(self, owner: Owner, item: Item) -> None:
        """Add an item, or move it to the end of the order."""
        self.remove(item)
        self._owners[item] = owner
        self._items.setdefault(owner, {})[item] = None

    def remove(self, item: Item) -> None:
        """Remove an item if it is there."""
        owner = self._owners.pop(item, None)
        if owner is None:
            return

        items = self._items[owner]
        del items[item]

        if not items:
            del self._items[owner]

    def pick(self) -> Item:
        """Return the oldest item of the owner that has the most. The crowd must not be empty."""
        items = max(self._items.values(), key=len)
        return next(iter(items))
