"""What became of one memory that was written, as a sentence."""

from abilities.cli.pretty.page import AnsweredCall, Page
from abilities.cli.pretty.words import format_mended
from abilities.declarations.values import JsonObject


def print_stored(answer: AnsweredCall, page: Page) -> None:
    """Print whether `store_memory` made or changed a memory."""
    verb = "Stored a new memory" if answer.payload["created"] else "Changed"
    _print_write(f"{verb} {_name_memory(answer.payload)}", answer.payload, page)

    if "replaced" in answer.payload:
        undo = {"id": answer.payload["id"], "version": answer.payload["replaced"]}
        page.print_rest("memory_restore", undo, "It replaced other content. To bring that back:")


def print_updated(answer: AnsweredCall, page: Page) -> None:
    """Print which values `update_memory` changed."""
    words = f"Changed {_name_memory(answer.payload)}"
    _print_write(f"{words}{_list_fields(answer.payload)}", answer.payload, page)


def print_restored(answer: AnsweredCall, page: Page) -> None:
    """Print which version `memory_restore` brought back."""
    version = answer.arguments["version"]
    words = f"Brought back version {version} of {_name_memory(answer.payload)}"
    _print_write(f"{words}{_list_fields(answer.payload)}", answer.payload, page)


def print_deleted(answer: AnsweredCall, page: Page) -> None:
    """Print what `delete_memory` did, and how to undo it."""
    payload = answer.payload
    action = payload.get("action") or _find_action(answer.arguments)
    page.print_line(f"{action.capitalize()} {_name_memory(payload)}.")
    _print_mended(payload, page)

    if action == "purged":
        page.print_line("Nothing brings it back.")
    elif action == "archived":
        undo = {"id": payload["id"], "archived": False}
        page.print_rest("update_memory", undo, "To bring it back:")
    else:
        # Only the history knows the version to restore.
        page.print_rest(
            "memory_history", {"id": payload["id"]}, "To find what memory_restore needs:"
        )


def _find_action(arguments: JsonObject) -> str:
    """Return what a concise answer leaves out."""
    if arguments.get("purge"):
        return "purged"

    return "deleted" if arguments.get("permanent") else "archived"


def _print_write(words: str, payload: JsonObject, page: Page) -> None:
    memory: JsonObject = payload.get("memory", payload)
    page.print_line(f"{words}. It has version {memory['version']}.")
    _print_mended(payload, page)


def _print_mended(payload: JsonObject, page: Page) -> None:
    mended = format_mended(payload)
    if mended:
        page.print_line(mended, style="yellow")


def _name_memory(payload: JsonObject) -> str:
    """Return a memory's key and id, or one of them if the answer does not have both."""
    memory: JsonObject = payload.get("memory", payload)
    key, identity = memory.get("key"), memory.get("id", payload.get("id"))
    if key is None:
        return f"the memory with the id {identity}"

    return f"{key} (id {identity})" if identity is not None else f"{key}"


def _list_fields(payload: JsonObject) -> str:
    """Return the fields that were changed; a concise answer does not say."""
    if "updated_fields" not in payload:
        return ""

    return f": {', '.join(payload['updated_fields']) or 'nothing was different'}"
