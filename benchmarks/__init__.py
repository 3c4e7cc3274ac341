"""Measure against a bare loop and rivals: `make bench`. Nothing here fails because of the clock."""
