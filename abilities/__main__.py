"""The command ``abilities``, also as ``python -m abilities``."""

import sys


def main(name: str | None = None) -> None:
    """Run the command line; ``name`` is that of the program in its messages."""
    # A hook must answer soon, and the command line takes long to import.
    if len(sys.argv) == 3 and sys.argv[1] == "hook" and sys.argv[2].isalpha():
        from abilities.hooks.asking import answer_stdin

        answer_stdin(sys.argv[2])

    from abilities.cli.main import main as run

    run(prog_name=name)


if __name__ == "__main__":
    main("abilities")
