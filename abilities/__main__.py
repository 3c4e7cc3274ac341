"""``python -m abilities`` is the command ``abilities``."""

from abilities.cli.main import main

main(prog_name="abilities")
