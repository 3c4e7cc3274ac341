"""Progress bars for long work."""

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class ProgressBar:
    """One bar; pass its methods as progress callbacks."""

    def __init__(self, progress: Progress, title: str, total: float | None) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=total)
        self.done = 0.0
        """The amount done so far, counted even if no bar is shown."""

    def advance(self, amount: float) -> None:
        """Add to the amount done."""
        self.reach(self.done + amount)

    def reach(self, done: float) -> None:
        """Set the amount done."""
        self.done = done
        self._progress.update(self._task, completed=done)


@contextmanager
def show_progress(title: str, total: float | None = None) -> Generator[ProgressBar]:
    """Show a bar on stderr during a block, if stderr is a terminal.

    With a ``total`` it shows a percentage and the remaining time, without one a running count.
    """
    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), BarColumn()]

    if total:
        columns += [TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn()]
    else:
        columns += [MofNCompleteColumn()]

    # The frames of a bar would be noise in a log file.
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield ProgressBar(progress, title, total)
