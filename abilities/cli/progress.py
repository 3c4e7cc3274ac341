"""Progress of long work, shown to people."""

from collections.abc import Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class ProgressBar:
    """One bar; its methods are the progress callbacks that long work asks for."""

    def __init__(self, progress: Progress, title: str, total: float | None) -> None:
        self._progress = progress
        self._task = progress.add_task(title, total=total)
        self.done = 0.0
        """What was done so far, whether or not it is shown."""

    def advance(self, amount: float) -> None:
        """Add to what is done."""
        self.done += amount
        self._progress.advance(self._task, amount)

    def reach(self, done: float) -> None:
        """Set what is done so far."""
        self.done = done
        self._progress.update(self._task, completed=done)


@contextmanager
def show_progress(title: str, total: float | None = None) -> Generator[ProgressBar]:
    """Show a bar on stderr for the length of a block, if stderr is a terminal.

    With a ``total`` it shows a percentage and the time that remains, without one a running count.
    """
    console = Console(stderr=True)
    columns = [TextColumn("{task.description}"), BarColumn()]

    if total:
        columns += [TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn()]
    else:
        columns += [MofNCompleteColumn()]

    # In a log file the frames of a bar would only be noise.
    with Progress(
        *columns, console=console, transient=True, disable=not console.is_terminal
    ) as progress:
        yield ProgressBar(progress, title, total)
