"""Adapters for agent frameworks, each tested where its framework is installed."""
