"""Record a terminal as an animated picture: `python -m tools.recording` writes docs/demo.svg.

Real commands run in a made-up project, and what they print is shown line by line, as they print
it. Only the pace is made: people read slower than the commands run.
"""

import html
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
PICTURE = ROOT / "docs" / "demo.svg"

COLUMNS = 88
ROWS = 27
_LINE_HEIGHT = 18
_CHAR_WIDTH = 8.4
_MARGIN = 16

_LINE_SECONDS = 0.12
_COMMAND_SECONDS = 1.0
_READING_SECONDS = 3.5

_FILES = {
    "src/parser.py": "def parse(text):\n    return text.split()\n",
    "src/app.py": "from parser import parse\n\nTOKEN = 'ghp_" + "aB3dE5fG7hJ9" * 3 + "'\n",
    "docs/plan.md": "# Plan\n\nShip Aurora on 4 May.\n",
    ".env": "PASSWORD=hunter2\n",
}

_COMMANDS = (
    """abilities call remember '{"operations": [
  {"op": "store", "type": "core", "key": "aurora", "content": "Aurora ships on 4 May."},
  {"op": "store", "type": "learning", "key": "ada", "content": "Ada leads the parser.",
   "links": [{"key": "aurora"}]}]}' --pretty""",
    """abilities call read '{"items": ["src/app.py", ".env", "none.md",
  {"search": "Aurora"}, {"memory": "ada"}]}' --pretty""",
    """abilities call recall '{"queries": [
  "Who leads the parser? When does Aurora ship?"]}' --pretty""",
)


class Frame(NamedTuple):
    """A line that appears at a time, in seconds from the beginning."""

    text: str
    seconds: float
    is_command: bool


def main() -> None:
    """Run the commands and write the picture."""
    PICTURE.write_text(draw(record()), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {PICTURE.stat().st_size:,} bytes")


def record() -> list[list[Frame]]:
    """Return a scene per command: its own lines, then the lines that it printed."""
    scenes: list[list[Frame]] = []
    seconds = 0.0

    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "project"
        for name, text in _FILES.items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

        for command in _COMMANDS:
            frames = [Frame(line, seconds, True) for line in command.splitlines()]
            frames[0] = frames[0]._replace(text=f"$ {frames[0].text}")
            seconds += _COMMAND_SECONDS

            for line in run(command, project, Path(scratch)):
                frames.append(Frame(line, seconds, False))
                seconds += _LINE_SECONDS

            seconds += _READING_SECONDS
            scenes.append(frames)

    return scenes


def run(command: str, project: Path, scratch: Path) -> list[str]:
    """Return the lines that a command prints."""
    binaries = str(Path(sys.executable).parent)
    environment = {
        "PATH": os.pathsep.join([binaries, os.environ["PATH"]]),
        "HOME": str(scratch),
        "COLUMNS": str(COLUMNS),
        "LANG": "C.UTF-8",
    }
    done = subprocess.run(
        command, shell=True, cwd=project, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return [line.rstrip() for line in done.stdout.splitlines()]


def draw(scenes: list[list[Frame]]) -> str:
    """Return the scenes as one SVG that plays them again and again."""
    total = scenes[-1][-1].seconds + _READING_SECONDS
    width = round(COLUMNS * _CHAR_WIDTH + 2 * _MARGIN)
    height = ROWS * _LINE_HEIGHT + 2 * _MARGIN

    styles: list[str] = []
    groups: list[str] = []
    for number, frames in enumerate(scenes):
        assert len(frames) <= ROWS, len(frames)
        assert max(len(frame.text) for frame in frames) <= COLUMNS
        end = scenes[number + 1][0].seconds if number + 1 < len(scenes) else total
        lines = [
            _draw_line(row, frame, number, end, total, styles) for row, frame in enumerate(frames)
        ]
        groups.append("\n".join(lines))

    last = len(scenes) - 1  # whoever prefers no motion sees that alone
    still = f"text{{animation:none!important;opacity:0}}.s{last}{{opacity:1}}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img">\n'
        "<title>Commands of agent-abilities and what they print</title>\n"
        "<style>\n"
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
        "fill:#d7dce2;white-space:pre;opacity:0;animation-iteration-count:infinite;"
        "animation-timing-function:step-end}\n"
        ".c{fill:#8fd18f;font-weight:600}\n"
        + "\n".join(styles)
        + f"\n@media (prefers-reduced-motion){{{still}}}\n</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#14171c"/>\n'
        + "\n".join(groups)
        + "\n</svg>\n"
    )


def _draw_line(
    row: int, frame: Frame, scene: int, end: float, total: float, styles: list[str]
) -> str:
    """Return a line of text; its style shows it from its time to the end of its scene."""
    name = f"k{scene}_{row}"
    begins = frame.seconds / total * 100
    ends = min(end / total * 100, 99.99)
    styles.append(
        f"@keyframes {name}{{0%{{opacity:0}}{begins:.2f}%{{opacity:1}}{ends:.2f}%{{opacity:0}}}}"
        f".{name}{{animation-name:{name};animation-duration:{total:.1f}s}}"
    )
    y = _MARGIN + (row + 1) * _LINE_HEIGHT - 5
    kind = " c" if frame.is_command else ""
    text = html.escape(frame.text, quote=False)
    place = f'x="{_MARGIN}" y="{y}" xml:space="preserve"'
    return f'<text class="{name} s{scene}{kind}" {place}>{text}</text>'


if __name__ == "__main__":
    main()
