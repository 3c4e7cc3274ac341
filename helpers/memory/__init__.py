"""Memory: an agent's notes and stored memories, as callers ask for them and read them."""
