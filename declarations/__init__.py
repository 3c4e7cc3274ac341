"""What may be said: the models of every request and answer; imports nothing else of ours."""
