"""Commands that have a module of their own; `abilities.cli.main` puts them together."""
