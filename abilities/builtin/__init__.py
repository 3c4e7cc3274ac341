"""The built-in abilities; related ones share a module."""
