"""Declarations: the models of every request and answer; they import nothing else of the package."""
