"""The tests of agent-abilities; each one's name says what it shows."""
