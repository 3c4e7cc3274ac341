"""Answers to the hooks of clients: memories that arrive with a session, a prompt or an edit."""
