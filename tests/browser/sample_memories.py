"""Samples to look at: memories that link to each other, notes of some days, files in both roots."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from abilities import Abilities, Settings
from abilities.declarations.values import JsonObject


def _memory(
    key: str, type: str, content: str, *links: tuple[str, float], **more: Any
) -> JsonObject:
    linked = [{"key": target, "link_weight": weight} for target, weight in links]
    return {"key": key, "type": type, "content": content, "links": linked, **more}


MEMORIES = [
    _memory(
        "project/goals",
        "core",
        "Ship the reader in spring: one call for many files, nothing lost.\n\n"
        "Ada decides what counts.",
        *[("project/plan", 0.9), ("people/Ada", 0.8), ("decisions/storage", 0.7)],
        ("gone/one", 0.3),
        importance="high",
        category="goal",
        tags=["project", "plan"],
        summary="One call for many files, by spring.",
        metadata={"reviewed": True},
    ),
    _memory(
        "project/plan",
        "task",
        "First the walk, then the store, then the surfaces.",
        *[("tasks/walk", 0.9), ("tasks/store", 0.8), ("tasks/surfaces", 0.6)],
        importance="high",
        tags=["plan"],
    ),
    _memory(
        "people/Ada",
        "core",
        "Ada leads. She prefers short answers, and tea.",
        *[("people/Grace", 0.7), ("project/goals", 0.8)],
        category="person",
        tags=["people"],
    ),
    _memory(
        "people/Grace",
        "core",
        "Grace reviews what touches storage.",
        ("decisions/storage", 0.9),
        category="person",
        tags=["people"],
    ),
    _memory(
        "decisions/storage",
        "learning",
        "One SQLite file, because nobody wants to run a server for notes.",
        ("learned/durability", 0.8),
        importance="high",
        tags=["project"],
    ),
    _memory(
        "learned/durability",
        "learning",
        "A write is acknowledged only when it is on the disk.",
        tags=["sqlite"],
    ),
    _memory("tasks/walk", "task", "It returns each memory once.", ("learned/graphs", 0.6)),
    _memory("tasks/store", "task", "It keeps what it said it kept.", ("learned/durability", 0.9)),
    _memory("tasks/surfaces", "task", "The same bytes on every surface.", importance="low"),
    _memory("learned/graphs", "learning", "A visited set loses memories.", importance="low"),
    _memory(
        "世界/größe", "core", "Zwölf Boxkämpfer jagen Viktor.", importance="low", tags=["emoji 🙂"]
    ),
]

AGES_OF_NOTES = (0, 1, 2, 5, 9, 30, 31, 60)
"""How many days ago the samples have notes."""

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


def list_attacks() -> list[JsonObject]:
    """Return memories with hostile text in all that anyone may write."""
    memories: list[JsonObject] = []
    for index, script in enumerate(SCRIPTS):
        links = [{"key": key, "type": script[:50]} for key in SCRIPTS[index + 1 : index + 3]]
        texts = dict.fromkeys(("key", "content", "summary"), script)
        labels = {"category": script[:50], "tags": [script[:30]], "metadata": {script: script}}
        memories.append({"type": "core", "importance": "low", "links": links, **texts, **labels})

    return memories


def create_samples(base: Path) -> Settings:
    """Write the files and store the memories, and return the settings for them."""
    settings = Settings(
        agent_dir=base / "agent",
        workspace_dir=base / "workspace",
        store_url=f"sqlite:///{base}/memory.db",
    )
    files = {
        "agent/MEMORY.md": "# Memory\n\nAda prefers tea.\n",
        "agent/shared.md": "the agent's own\n",
        "workspace/shared.md": "the workspace's, which nobody reads\n",
        "workspace/README.md": "# Read me\n" + "A line of the workspace.\n" * 40,
        "workspace/src/app.py": "print('hello')\n",
        "workspace/long.txt": "".join(f"line {n} of a long file\n" for n in range(6_000)),
        "workspace/.env": "SECRET=1\n",
    }
    for age in AGES_OF_NOTES:
        day = date.today() - timedelta(days=age)
        lines = "Something was learned.\n" * (1 + age % 7)
        files[f"agent/memory/{day.isoformat()}.md"] = f"# {day}\n{lines}"

    for name, text in files.items():
        path = base / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    # On a thread of its own, because on this one Playwright's event loop may run.
    with ThreadPoolExecutor(1) as threads:
        threads.submit(asyncio.run, _store_memories(settings)).result()

    return settings


async def _store_memories(settings: Settings) -> None:
    async with Abilities.open(settings) as abilities:
        for memory in MEMORIES:
            await abilities.call("store_memory", memory)
