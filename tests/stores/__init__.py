"""Stores: every store against one suite, damage, import and export."""
