"""Samples to look at: memories that link to each other, notes of some days, files in both roots."""

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any, TypeVar

from abilities import Abilities, Settings

T = TypeVar("T")

MEMORIES: list[dict[str, Any]] = [
    {
        "key": "project/goals",
        "type": "core",
        "importance": "high",
        "category": "goal",
        "tags": ["project", "plan"],
        "content": (
            "Ship the reader in spring: one call for many files, nothing lost.\n\n"
            "Ada decides what counts."
        ),
        "summary": "One call for many files, by spring.",
        "metadata": {"reviewed": True},
        "links": [
            ("project/plan", 0.9),
            ("people/Ada", 0.8),
            ("decisions/storage", 0.7),
            ("gone/one", 0.3),
        ],
    },
    {
        "key": "project/plan",
        "type": "task",
        "importance": "high",
        "tags": ["plan"],
        "content": "First the walk, then the store, then the surfaces.",
        "links": [("tasks/walk", 0.9), ("tasks/store", 0.8), ("tasks/surfaces", 0.6)],
    },
    {
        "key": "people/Ada",
        "type": "core",
        "category": "person",
        "tags": ["people"],
        "content": "Ada leads. She prefers short answers, and tea.",
        "links": [("people/Grace", 0.7), ("project/goals", 0.8)],
    },
    {
        "key": "people/Grace",
        "type": "core",
        "category": "person",
        "tags": ["people"],
        "content": "Grace reviews what touches storage.",
        "links": [("decisions/storage", 0.9)],
    },
    {
        "key": "decisions/storage",
        "type": "learning",
        "importance": "high",
        "tags": ["project"],
        "content": "One SQLite file, because nobody wants to run a server for notes.",
        "links": [("learned/durability", 0.8)],
    },
    {
        "key": "learned/durability",
        "type": "learning",
        "tags": ["sqlite"],
        "content": "A write is acknowledged only when it is on the disk.",
    },
    {
        "key": "tasks/walk",
        "type": "task",
        "content": "The walk returns each memory once.",
        "links": [("learned/graphs", 0.6)],
    },
    {
        "key": "tasks/store",
        "type": "task",
        "content": "The store keeps what it said it kept.",
        "links": [("learned/durability", 0.9)],
    },
    {
        "key": "tasks/surfaces",
        "type": "task",
        "importance": "low",
        "content": "The same bytes on every surface.",
    },
    {
        "key": "learned/graphs",
        "type": "learning",
        "importance": "low",
        "content": "A plain visited set loses memories that the depth allows.",
    },
    {
        "key": "世界/größe",
        "type": "core",
        "importance": "low",
        "tags": ["emoji 🙂"],
        "content": "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    },
]

SCRIPTS = [
    "<script>hacked()</script>",
    "<img src=x onerror=hacked()>",
    "<svg onload=hacked()>",
    "\"><script>hacked()</script>",
    "'-hacked()-'",
    "javascript:hacked()",
    "<a href=javascript:hacked()>x</a>",
    "<iframe srcdoc='<script>parent.hacked()</script>'>",
    "</textarea><script>hacked()</script>",
    "</title><script>hacked()</script>",
    "</pre><img src=x onerror=hacked()>",
    "<math><mtext></form><form><mglyph><style></math><img src onerror=hacked()>",
    "<noscript><p title=\"</noscript><img src=x onerror=hacked()>\">",
    "<input autofocus onfocus=hacked()>",
    "<details open ontoggle=hacked()>",
    "<style>@import 'https://evil.example/x.css'</style>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<img src=https://evil.example/pixel.png>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<base href=https://evil.example/>",
    "${hacked()}",
    "{{constructor.constructor('hacked()')()}}",
    "`+hacked()+`",
    "</script><script>hacked()</script>",
    "<!--><script>hacked()</script>-->",
    "<![CDATA[<script>hacked()</script>]]>",
    "&lt;script&gt;hacked()&lt;/script&gt;",
    "\\u003cscript\\u003ehacked()\\u003c/script\\u003e",
    "%3Cscript%3Ehacked()%3C/script%3E",
    "<x onclick=hacked() tabindex=1 id=x>",
    "data:text/html,<script>hacked()</script>",
    "<object data=javascript:hacked()>",
    "<form action=javascript:hacked()><button autofocus>x</button></form>",
    "constructor", "__proto__", "toString", "..", ".",
]  # fmt: skip
"""Texts that pages have been attacked with."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result.

    It runs on a thread of its own, because Playwright's event loop already runs on this one.
    """
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


def create_samples(base: Path) -> Settings:
    """Write the files and store the memories, and return the settings for them."""
    settings = Settings(
        agent_dir=base / "agent",
        workspace_dir=base / "workspace",
        store_url=f"sqlite:///{base}/memory.db",
    )

    for name, text in (_list_files() | _list_notes()).items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    run(_store_memories(settings))
    return settings


def _list_files() -> dict[str, str]:
    return {
        "agent/MEMORY.md": "# Memory\n\nAda prefers tea.\n",
        "agent/shared.md": "the agent's own\n",
        "workspace/shared.md": "the workspace's, which nobody reads\n",
        "workspace/README.md": "# Read me\n" + "A line of the workspace.\n" * 40,
        "workspace/src/app.py": "print('hello')\n",
        "workspace/long.txt": "".join(f"line {n} of a long file\n" for n in range(6_000)),
        "workspace/.env": "SECRET=1\n",
    }


def _list_notes() -> dict[str, str]:
    notes: dict[str, str] = {}

    for age in (0, 1, 2, 5, 9, 30, 31, 60):
        day = date.today() - timedelta(days=age)
        lines = "Something was learned.\n" * (1 + age % 7)
        notes[f"agent/memory/{day.isoformat()}.md"] = f"# {day}\n{lines}"

    return notes


async def _store_memories(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        for memory in MEMORIES:
            links = [{"key": key, "link_weight": weight} for key, weight in memory.get("links", ())]
            await abilities.call("store_memory", {**memory, "links": links})


async def attack(settings: Settings) -> None:
    """Put hostile text wherever anyone but the page's user may write."""
    (settings.workspace_dir / "src" / f"{SCRIPTS[1]}.txt").write_text(SCRIPTS[0])
    (settings.agent_dir / "MEMORY.md").write_text("\n".join(SCRIPTS))

    async with Abilities.open(settings) as abilities:
        for index, script in enumerate(SCRIPTS):
            next_keys = SCRIPTS[index + 1 : index + 3]
            memory = {
                "key": script,
                "type": "core",
                "importance": "low",
                "content": script,
                "summary": script,
                "category": script[:50],
                "tags": [script[:30]],
                "metadata": {script: script},
                "links": [{"key": key, "type": script[:50]} for key in next_keys],
            }
            await abilities.call("store_memory", memory)
