"""Replies: one envelope that keeps its bound."""
