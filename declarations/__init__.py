"""What may be said: the models of every request and answer. Imports nothing else of this package."""
