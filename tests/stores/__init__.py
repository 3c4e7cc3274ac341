"""Stores: every store against one suite, the law, and damage."""
