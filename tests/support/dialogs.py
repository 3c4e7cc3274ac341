"""A session in each format that an import reads, made up after public descriptions of them.

All say the same two turns, between what an import leaves out.
"""

import json
from pathlib import Path
from typing import Any

UUID = "0a1b2c3d-1111-4222-8333-444455556666"
SESSION = UUID[-12:]

ASKED = "Which tea sells best?"
ANSWER = "The sales say:\n\n- sencha: 40\n- mate: 2\n\nSencha, with 40 a day."
ANSWERED = "Sencha, with 40 a day."
ORDERED = "Order more of it."
DONE = "Ordered 100 boxes."

BEFORE = "2026-01-18T02:01:00.000Z"
ASKED_AT = "2026-01-18T02:01:28.359Z"
ANSWERED_AT = "2026-01-18T02:02:40.500Z"
ORDERED_AT = "2026-01-18T02:03:00.000Z"
DONE_AT = "2026-01-18T02:03:09.000Z"


def text(words: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": words}


def claude_code(role: str, content: Any, time: str = BEFORE, **fields: Any) -> dict[str, Any]:
    """A line of a session of Claude Code."""
    return {
        "parentUuid": None,
        "sessionId": UUID,
        "cwd": "/home/ada/tea-shop",
        "isSidechain": False,
        "type": role,
        "message": {"role": role, "content": content},
        "timestamp": time,
        **fields,
    }


TOOL_RESULT = {"type": "tool_result", "tool_use_id": "t1", "content": "sencha 40"}

LEFT_OUT = {
    "a summary": {"type": "summary", "summary": "Tea", "leafUuid": "x"},
    "a snapshot": {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
    "a line of Claude Code": claude_code("user", "Caveat: generated", isMeta=True),
    "a command": claude_code(
        "user", "<command-name>/clear</command-name>\n <command-args></command-args>"
    ),
    "output of a command": claude_code("user", "<local-command-stdout>x</local-command-stdout>"),
    "a reminder": claude_code("user", [text("<system-reminder>Be brief.</system-reminder>")]),
    "a reminder without an end": claude_code("user", "<system-reminder>Be brief."),
    "a result": claude_code("user", [TOOL_RESULT, text("more")], toolUseResult={}),
    "a subagent": claude_code("user", "Search the shop.", isSidechain=True),
    "a compaction": claude_code("user", "This session continues …", isCompactSummary=True),
    "only shown": claude_code("user", "Shown.", isVisibleInTranscriptOnly=True),
    "another program": claude_code("user", "A task ended.", origin={"kind": "task-notification"}),
    "an interruption": claude_code("user", [text("[Request interrupted by user]")]),
    "an empty turn": claude_code("user", " \n"),
    "no text": claude_code("user", [{"type": "image", "source": {}}]),
    "thinking": claude_code("assistant", [{"type": "thinking", "thinking": "Hm."}]),
    "an error": claude_code("assistant", [text("API Error: 500")], isApiErrorMessage=True),
    "no answer": claude_code(
        "assistant", None, message={"model": "<synthetic>", "content": [text("No response.")]}
    ),
    "an unknown line": {"type": "something-new", "sessionId": UUID},
}
"""Lines of Claude Code that an import leaves out, without a word."""

CLAUDE_CODE = [
    *LEFT_OUT.values(),
    claude_code("user", ASKED, ASKED_AT, origin={"kind": "human"}),
    claude_code("assistant", [text("Let me look."), {"type": "tool_use"}], ASKED_AT),
    LEFT_OUT["a result"],
    claude_code("assistant", [text(ANSWER)], ANSWERED_AT),
    *LEFT_OUT.values(),
    claude_code("user", [text("<system-reminder>!</system-reminder>"), text(ORDERED)], ORDERED_AT),
    claude_code("assistant", [text(DONE)], DONE_AT),
    *LEFT_OUT.values(),
]


def codex(kind: str, payload: dict[str, Any], time: str = BEFORE) -> dict[str, Any]:
    """A line of a session of Codex."""
    return {"timestamp": time, "type": kind, "payload": payload}


def _repeat(role: str, words: str) -> dict[str, Any]:
    kind = "input_text" if role == "user" else "output_text"
    return codex("response_item", {"type": "message", "role": role, "content": [text(words, kind)]})


CODEX = [
    codex("session_meta", {"id": UUID, "cwd": "/home/ada/tea-shop", "source": "cli"}),
    _repeat("user", "<environment_context>...</environment_context>"),
    codex("event_msg", {"type": "user_message", "message": "ctx", "kind": "environment_context"}),
    codex("turn_context", {"cwd": "/tmp", "model": "m"}),
    _repeat("user", ASKED),
    codex("event_msg", {"type": "user_message", "message": ASKED, "kind": "plain"}, ASKED_AT),
    codex("event_msg", {"type": "agent_reasoning", "text": "Hm."}),
    codex("event_msg", {"type": "agent_message", "message": "Let me look."}, ASKED_AT),
    codex("response_item", {"type": "function_call_output", "output": "sencha 40"}),
    codex("event_msg", {"type": "agent_message", "message": ANSWER}, ANSWERED_AT),
    _repeat("assistant", ANSWER),
    codex("compacted", {"message": "Summary."}),
    codex("event_msg", {"type": "user_message", "message": ORDERED}, ORDERED_AT),
    codex("event_msg", {"type": "agent_message", "message": DONE}, DONE_AT),
    codex("event_msg", {"type": "token_count", "info": None}),
]

_TURNS = (
    ("user", ASKED, ASKED_AT),
    ("assistant", "Let me look.", ASKED_AT),
    ("assistant", ANSWER, ANSWERED_AT),
    ("user", ORDERED, ORDERED_AT),
    ("assistant", DONE, DONE_AT),
)

OLD_CODEX: list[dict[str, Any]] = [
    {"id": UUID, "timestamp": BEFORE, "instructions": None, "cwd": "/home/ada/tea-shop"},
    {"record_type": "state"},
    {"type": "message", "role": "user", "content": [text("# AGENTS.md instructions for /x")]},
    *(
        {"type": "message", "role": role, "content": [text(words, "text")], "timestamp": time}
        for role, words, time in _TURNS
    ),
    {"type": "reasoning", "summary": []},
]
"""As Codex wrote it until September 2025, with times, which it did not write."""


def _node(parent: str | None, role: str, words: Any, seconds: float, **fields: Any) -> Any:
    message = {
        "author": {"role": role},
        "create_time": seconds,
        "content": {"content_type": "text", "parts": words},
        "recipient": "all",
        "weight": 1.0,
        **fields,
    }
    return {"parent": parent, "children": [], "message": message}


CHATGPT = [
    {
        "title": "Tea",
        "conversation_id": UUID,
        "current_node": "8",
        "mapping": {
            "0": {"parent": None, "children": ["1"], "message": None},
            "1": _node("0", "system", [""], 1768701660.0),
            "2": _node("1", "user", [{"asset_pointer": "x"}, ASKED], 1768701688.359),
            "3": _node("2", "assistant", ["search('tea')"], 1768701690.0, recipient="python"),
            "4": _node("3", "tool", ["sencha 40"], 1768701691.0),
            "5": _node("4", "assistant", ["Hidden."], 1768701692.0, weight=0.0),
            "6": _node("5", "assistant", [ANSWER], 1768701760.5),
            "7": _node("6", "user", [ORDERED], 1768701780.0),
            "8": _node("7", "assistant", [DONE], 1768701789.0),
            "9": _node("6", "user", ["Another branch."], 1768701900.0),
        },
    }
]

CLAUDE = [
    {
        "uuid": UUID,
        "name": "Tea",
        "account": {"uuid": "x"},
        "chat_messages": [
            {"sender": "human", "text": ASKED, "created_at": ASKED_AT, "attachments": []},
            {
                "sender": "assistant",
                "text": "Let me look. Sencha",
                "content": [text("Let me look."), {"type": "tool_use"}, text(ANSWER)],
                "created_at": ANSWERED_AT,
            },
            {"sender": "human", "text": "", "content": [text(ORDERED)], "created_at": ORDERED_AT},
            {"sender": "assistant", "content": [], "text": DONE, "created_at": DONE_AT},
        ],
    }
]


def write_lines(file: Path, *records: object) -> Path:
    """Append records to a file as lines, and return it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as opened:
        opened.writelines(f"{json.dumps(record)}\n" for record in records)
    return file
