"""The built-in abilities, one module per ability; those that keep memories share one."""
