"""``python -m abilities`` is the command ``abilities``."""

from abilities.cli import main

main(prog_name="abilities")
