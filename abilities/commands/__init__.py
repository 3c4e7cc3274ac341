"""Commands that have a module of their own; `abilities.cli` puts them together."""
