"""Ratios against a bare loop and the rivals; ``make bench`` prints them. Nothing here fails by the clock."""
