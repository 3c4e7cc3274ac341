"""How it is done: confinement, reading, cutting, budgets, rendering. No ability and no surface is named here."""
