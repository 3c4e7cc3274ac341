"""Where memories are kept: the protocol of a store, what is common to all, and the stores themselves."""
