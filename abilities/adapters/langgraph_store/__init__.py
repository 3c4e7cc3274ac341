"""LangGraph's long-term memory: `AbilitiesStore`, a `BaseStore` on stored memories."""

from abilities.errors import Needs

with Needs("langgraph_store"):
    from abilities.adapters.langgraph_store.store import AbilitiesStore

__all__ = ["AbilitiesStore"]
