"""What people type wrongly at a command line, and what the answer must name.

They come from habits: the words of other programs, options of the neighboring command, the order of
another tool, a path for a URL, a file of another format, quotes that the shell takes away.
"""

from typing import NamedTuple

FILES = {
    "README.md": "# Read me\n\nPlain text.\n",
    "array.json": '[{"key": "tea", "content": "Green tea"}]\n',
    "broken-tokens.json": "{",
    "port.toml": "port = 9000\n",
    "colon.toml": 'timezone: "Europe/Berlin"\n',
}
"""Files of the folder in which the mistakes are typed; a test adds those that are no text."""


class Mistake(NamedTuple):
    """A command line as it is typed, and words that its answer must have.

    ``rule`` is what is wrong, or what would be right; ``step`` is what to type or to do next.
    ``variables`` are set in the shell.
    """

    typed: str
    rule: str
    step: str
    exit_code: int = 2
    variables: tuple[tuple[str, str], ...] = ()


def _set(
    typed: str, variable: str, value: str, rule: str, step: str, exit_code: int = 2
) -> Mistake:
    return Mistake(typed, rule, step, exit_code, ((variable, value),))


URL = "ABILITIES_STORE_URL"

MISTAKES = [
    # The words of other programs for commands.
    Mistake("recal tea", "No such command 'recal'", "'abilities recall'"),
    Mistake("ls", "No such command 'ls'", "'abilities list'"),
    Mistake("setpu cursor", "No such command 'setpu'", "'abilities setup'"),
    Mistake("server", "No such command 'server'", "'abilities serve'"),
    Mistake("start --port 8642", "No such command 'start'", "'abilities serve'"),
    Mistake("search tea", "No such command 'search'", "'abilities recall'"),
    Mistake("query tea", "No such command 'query'", "'abilities recall'"),
    Mistake("remember tea", "No such command 'remember'", "'abilities call remember'"),
    Mistake("read README.md", "No such command 'read'", "'abilities call read'"),
    Mistake("forget old/address", "No such command 'forget'", "'abilities purge'"),
    Mistake("delete old", "No such command 'delete'", "'abilities call delete_memory'"),
    Mistake("install cursor", "No such command 'install'", "'abilities setup'"),
    Mistake("status", "No such command 'status'", "'abilities doctor'"),
    Mistake("help", "No such command 'help'", "'abilities --help'"),
    Mistake("version", "No such command 'version'", "'abilities --version'"),
    Mistake("Recall tea", "No such command 'Recall'", "'abilities recall'"),
    Mistake("tokens list", "No such command 'tokens'", "'abilities token'"),
    Mistake("token create --scope read", "No such command 'create'", "'abilities token add'"),
    Mistake("token delete 3f9c2a1b", "No such command 'delete'", "'abilities token revoke'"),
    Mistake("frobnicate", "No such command 'frobnicate'", "'abilities --help'"),
    # Options of other programs, and what is missing or too much.
    Mistake("serve -p 9000", "No such option '-p'", "--port"),
    Mistake("recall tea -n team", "No such option '-n'", "--namespace"),
    Mistake("recall tea --workspace .", "No such option '--workspace'", "--workspace-dir"),
    Mistake("recall tea --dir .", "No such option '--dir'", "--workspace-dir"),
    Mistake("check --store memory.db", "No such option '--store'", "--store-url"),
    Mistake("check --db memory.db", "No such option '--db'", "--store-url"),
    Mistake("graph goals --max-depth 3", "No such option '--max-depth'", "--depth"),
    Mistake("export all.jsonl --force", "No such option '--force'", "abilities export --help"),
    Mistake("import array.json --overwrite", "No such option '--overwrite'", "--replace"),
    Mistake("import array.json --dryrun", "No such option '--dryrun'", "--dry-run"),
    Mistake("purge tea -y", "No such option '-y'", "--yes"),
    Mistake(
        "mcp --port 8000",
        "No such option '--port'",
        "an option of 'abilities explore' and 'abilities serve'",
    ),
    Mistake("recall tea --namespace", "'--namespace' requires an argument", "--namespace NAME"),
    Mistake("serve --port", "'--port' requires an argument", "--port INTEGER RANGE"),
    Mistake("recall", "Missing argument 'QUESTION...'", 'abilities recall "When'),
    Mistake("graph", "Missing argument 'KEY'", "abilities graph goals"),
    Mistake("import", "Missing argument 'SOURCE'", "abilities import memory.jsonl"),
    Mistake("backup", "Missing argument 'FILE|DIR'", "abilities backup memories.db"),
    Mistake("call", "Missing argument 'NAME'", "abilities call file_read_bulk"),
    Mistake("list extra", "unexpected extra argument", "leave it out"),
    Mistake("setup cursor vscode", "setup takes CLIENT only", "leave it out"),
    # Values that an option does not take.
    Mistake("serve --port http", "'--port'", "whole number from 0 to 65535"),
    Mistake("graph goals --depth 10", "'--depth'", "whole number from 1 to 6"),
    Mistake("graph goals --format png", "'--format'", "'tree', 'svg'"),
    Mistake("graph goals --direction up", "'--direction'", "'out'"),
    Mistake("catch-up --max-tokens 10", "'--max-tokens'", "whole number from 500 to 16000"),
    Mistake(
        "token add --scope metrics --namespace team",
        "for metrics opens no namespace",
        "leave out --namespace",
    ),
    Mistake("recall tea --namespace a/b", "1 to 128 letters", "'_-.@:+='"),
    Mistake("completion powershell", "'powershell' is not one of", "'bash'"),
    Mistake("mcp --tools leen", "leen", "lean"),
    Mistake("call raed", "no ability named 'raed'", "choose one of: file_read_bulk"),
    Mistake("describe recal", "no ability named 'recal'", "did you mean recall"),
    Mistake("describe setup", "no ability named 'setup'", "abilities setup --help"),
    # Places where nothing is, or something else.
    Mistake("restore missing.db", "'missing.db' does not exist", "Paths begin in"),
    Mistake("export --resume", "--resume", "name the file"),
    Mistake("purge nokey --yes", "No memory with this key", "memory_list", 1),
    _set("backup x.db", URL, "sqlite:///none.db", "no store at", "store_url", 1),
    # The order of another tool.
    Mistake(
        """call '{"paths": ["README.md"]}' file_read_bulk""",
        "the name comes first",
        "abilities call file_read_bulk",
    ),
    Mistake("file_read_bulk call", "No such command", "'abilities call file_read_bulk'"),
    Mistake("cursor setup", "No such command 'cursor'", "'abilities setup cursor'"),
    Mistake("add token --scope read", "No such command 'add'", "'abilities token add'"),
    Mistake("recall --namespace tea", "Missing argument 'QUESTION...'", 'abilities recall "When'),
    # Arguments that are not quite JSON.
    Mistake("call read ''", "there are none", '{"paths": ["README.md"]}'),
    Mistake(
        """call file_read_bulk '{"path": 5}'""", "did you mean 'paths'", "abilities describe", 1
    ),
    Mistake("""call file_list '{"limit": "many"}'""", "limit", "1", 1),
    # Settings in variables and in a file.
    _set("list", "ABILITIES_CONFIG", "colon.toml", "not valid TOML", 'timezone = "Eur'),
    _set("list", "ABILITIES_CONFIG", "port.toml", "is no setting", "abilities serve --port"),
    _set(
        "token list", "ABILITIES_TOKENS_FILE", "broken-tokens.json", "cannot be read", "restore it"
    ),
    # URLs of a store.
    _set("recall tea", URL, "sqlite://memory.db", "store_url", "sqlite:///"),
    _set("recall tea", URL, "sqlite:memory.db", "store_url", "sqlite:///"),
    _set("recall tea", URL, "postgresql", "store_url", "postgresql://"),
    # Files of other formats.
    Mistake("import array.json", "JSON array", "one object per line", 1),
    Mistake("import other.db", "kv-memory", "docs/moving.md", 1),
    Mistake("import torn.db", "cannot be read", "from a backup", 1),
    Mistake("import memory.db", "a store of this package", "abilities export", 1),
    # Clients to set up.
    Mistake("setup vim", "'vim' is not one of", "'cursor'"),
    Mistake("setup claude", "'claude' is not one of", "Did you mean claude-code or claude-desktop"),
    Mistake("setup Cursor", "'Cursor' is not one of", "Did you mean cursor"),
    Mistake(
        "setup cursor --hooks", "--hooks is for claude-code, codex, gemini only", "leave it out"
    ),
    Mistake(
        "setup claude-desktop --project", "no configuration of a project", "leave out --project"
    ),
    Mistake("setup cursor --print --remove", "--print goes with neither", "leave those out"),
    Mistake("setup --remove", "name the client", "abilities setup CLIENT --remove"),
    Mistake("setup cursor --tools leen --print", "leen", "lean"),
    Mistake("setup gemini", "line 1", "nothing was changed", 1),
]
