"""Messages in the records of Claude Code, Codex, ChatGPT and Claude, one parser per format.

None of the formats is documented by its vendor; these parsers follow public ones, as of November
2026. ``docs/moving.md`` says what is left out, and ``tests/support/dialogs.py`` has a sample of
each. A parser returns only what the user wrote and the texts of the answers. It raises UnusableLine
if a field that it needs has a wrong type.
"""

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import NamedTuple, cast

from abilities.declarations.values import JsonObject, as_object, format_utc
from abilities.helpers.transfer.export_lines import UnusableLine

_WRAPPERS = (
    *("system-reminder", "task-notification", "user-prompt-submit-hook", "ide_diagnostics"),
    *("command-name", "command-message", "command-args", "command-contents"),
    *("local-command-caveat", "local-command-stdout", "local-command-stderr"),
    *("bash-input", "bash-stdout", "bash-stderr", "ide_opened_file", "ide_selection"),
    *("environment_context", "user_instructions", "turn_aborted", "INSTRUCTIONS"),
)
"""Elements that a program adds to the texts of its user."""

_TAG = re.compile(rf"<(/?)({'|'.join(_WRAPPERS)})(?: [^<>]*)?>")

_MACHINE_MADE = ("[Request interrupted by user", "# AGENTS.md instructions for ")
"""Beginnings of texts that a program wrote in the name of its user."""

_TEXT_TYPES = ("text", "input_text", "output_text")
_CHATGPT_TYPES = ("text", "multimodal_text")


class Message(NamedTuple):
    """A text of the user or of the assistant; ``time`` is RFC 3339 UTC in milliseconds or None."""

    is_users: bool
    text: str
    time: str | None


Parser = Callable[[JsonObject], Message | None]


class Format(NamedTuple):
    """The format of sessions: the category of its memories, and its parser.

    A session has a record per line, or is one record, whose messages ``parse_whole`` yields.
    """

    category: str
    parse_line: Parser | None = None
    parse_whole: Callable[[JsonObject], Iterator[Message]] | None = None


def strip_wrappers(text: str) -> str:
    """Return a text without the elements that a program added, in linear time.

    >>> strip_wrappers("<system-reminder>Be brief.</system-reminder>Who is Ada?")
    'Who is Ada?'
    """
    kept: list[str] = []
    position = 0
    wrapper = ""

    for tag in _TAG.finditer(text):
        slash, name = tag.groups()
        if not wrapper and not slash:
            kept.append(text[position : tag.start()])
            wrapper = name
        elif slash and name == wrapper:
            position = tag.end()
            wrapper = ""

    if not wrapper:
        kept.append(text[position:])

    stripped = "".join(kept).strip()
    return "" if stripped.startswith(_MACHINE_MADE) else stripped


def parse_time(value: object) -> str | None:
    """Return an ISO 8601 time, or seconds since 1970, as RFC 3339 UTC; None for anything else."""
    try:
        if isinstance(value, str):
            time = datetime.fromisoformat(value)
        elif isinstance(value, int | float):
            time = datetime.fromtimestamp(value, UTC)
        else:
            return None

        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        return format_utc(time.astimezone(UTC))
    except (ValueError, OverflowError, OSError):
        return None


def parse_claude_code(record: JsonObject) -> Message | None:
    """Return the message of a line of ~/.claude/projects/PROJECT/SESSION.jsonl.

    Such a line is ``{"type": "user", "message": {"content": TEXT or BLOCKS}, "timestamp": …}``.
    Flags mark the lines of subagents, of Claude Code itself, and of compacted conversations.
    """
    is_users = record.get("type") == "user"
    if not is_users and record.get("type") != "assistant":
        return None

    flags = ("isSidechain", "isMeta", "isCompactSummary", "isVisibleInTranscriptOnly")
    if any(record.get(flag) for flag in (*flags, "isApiErrorMessage")):
        return None

    origin = as_object(record.get("origin"))
    if is_users and origin is not None and origin.get("kind") != "human":
        return None

    message = _get_object(record, "message")
    if message.get("model") == "<synthetic>":
        return None

    return _read_blocks(message.get("content"), record, is_users=is_users)


def parse_codex(record: JsonObject) -> Message | None:
    """Return the message of a line of ~/.codex/sessions/YYYY/MM/DD/rollout-*.jsonl.

    Such a line is ``{"type": "event_msg", "payload": {"type": "user_message", "message": TEXT}}``;
    the items sent to the model repeat these texts, among those of the program. Until September 2025
    there were only items, each ``{"type": "message", "role": "user", "content": BLOCKS}``.
    """
    if record.get("type") == "message":
        role = record.get("role")
        if role in ("user", "assistant"):
            return _read_blocks(record.get("content"), record, is_users=role == "user")
        return None

    if record.get("type") != "event_msg":
        return None

    event = _get_object(record, "payload")
    is_users = event.get("type") == "user_message"
    if not is_users and event.get("type") != "agent_message":
        return None
    if event.get("kind") not in (None, "plain"):
        return None

    text = event.get("message")
    if not isinstance(text, str):
        raise UnusableLine("The field message is not a text.")

    return _make_message(strip_wrappers(text), record, is_users=is_users)


def parse_chatgpt(conversation: JsonObject) -> Iterator[Message]:
    """Yield the messages of a conversation in ChatGPT's conversations.json.

    It is a tree, ``{"mapping": {ID: {"message": …, "parent": ID}}, "current_node": ID}``. The way
    from the current node to the root is what the user saw last; other branches are left out.
    """
    nodes = _get_object(conversation, "mapping")
    name = conversation.get("current_node")
    if not isinstance(name, str) or name not in nodes:
        name = next(reversed(nodes), None)

    way: list[JsonObject] = []
    while isinstance(name, str) and name in nodes and len(way) <= len(nodes):
        node = _get_object(nodes, name)
        way.append(as_object(node.get("message")) or {})
        name = node.get("parent")

    for message in reversed(way):
        role = (as_object(message.get("author")) or {}).get("role")
        content = as_object(message.get("content")) or {}
        metadata = as_object(message.get("metadata")) or {}
        if role not in ("user", "assistant") or content.get("content_type") not in _CHATGPT_TYPES:
            continue
        if message.get("weight") == 0 or metadata.get("is_visually_hidden_from_conversation"):
            continue
        if message.get("recipient", "all") != "all":
            continue

        parts = content.get("parts")
        texts = [part for part in _as_list(parts) if isinstance(part, str)]
        text = "\n\n".join(texts).strip()
        if text:
            yield Message(role == "user", text, parse_time(message.get("create_time")))


def parse_claude(conversation: JsonObject) -> Iterator[Message]:
    """Yield the messages of a conversation in the conversations.json of Claude.

    It is ``{"chat_messages": [{"sender": "human", "content": BLOCKS, "text": …}]}``.
    """
    for value in _as_list(conversation.get("chat_messages")):
        message = as_object(value) or {}
        is_users = message.get("sender") == "human"
        if not is_users and message.get("sender") != "assistant":
            continue

        texts = _list_texts(message.get("content") or []) or _list_texts(message.get("text", ""))
        if texts:
            text = "\n\n".join(texts) if is_users else texts[-1]
            yield Message(is_users, text.strip(), parse_time(message.get("created_at")))


def _read_blocks(content: object, record: JsonObject, *, is_users: bool) -> Message | None:
    """Return the message of a content: all that the user wrote, or the end of an answer."""
    texts = _list_texts(content)
    if is_users:
        return _make_message(strip_wrappers("\n\n".join(texts)), record, is_users=True)

    return _make_message("".join(texts[-1:]), record, is_users=False)


def _make_message(text: str, record: JsonObject, *, is_users: bool) -> Message | None:
    if not text.strip():
        return None

    return Message(is_users, text.strip(), parse_time(record.get("timestamp")))


def _list_texts(content: object) -> list[str]:
    """Return the texts of a text or of a list of blocks, but none of a tool's result."""
    if isinstance(content, str):
        return [content] if content.strip() else []

    texts: list[str] = []
    for value in _as_list(content):
        block = as_object(value) or {}
        if block.get("type") == "tool_result":
            return []

        text = block.get("text")
        if block.get("type") in _TEXT_TYPES and isinstance(text, str) and text.strip():
            texts.append(text)

    return texts


def _as_list(value: object) -> list[object]:
    if not isinstance(value, list):
        raise UnusableLine("A field that should be a list is not one.")

    return cast(list[object], value)


def _get_object(record: JsonObject, field: str) -> JsonObject:
    value = as_object(record.get(field))
    if value is None:
        raise UnusableLine(f"The field {field} is not a JSON object.")

    return value


CLAUDE_CODE = Format("claude-code", parse_line=parse_claude_code)
CODEX = Format("codex", parse_line=parse_codex)
CHATGPT = Format("chatgpt", parse_whole=parse_chatgpt)
CLAUDE = Format("claude", parse_whole=parse_claude)


def recognize(record: JsonObject) -> Format | None:
    """Return the format of a record; None if the record does not show one."""
    if "mapping" in record:
        return CHATGPT
    if "chat_messages" in record:
        return CLAUDE
    if "payload" in record or {"type", "role", "content"} <= record.keys():
        return CODEX
    if "sessionId" in record:
        return CLAUDE_CODE

    return None
