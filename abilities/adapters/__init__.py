"""One thin module per outside world; each is imported by its path, so that its dependencies stay optional."""
