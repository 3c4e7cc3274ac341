"""What people type wrongly at a command line, and what the answer must name.

They come from habits: the words of other programs, options of the neighboring command, the order of
another tool, a path for a URL, a file of another format, quotes that the shell takes away.
"""

from typing import NamedTuple

FILES = {
    "README.md": "# Read me\n\nPlain text.\n",
    "memories.csv": "key,content\ntea,Green tea\n",
    "array.json": '[{"key": "tea", "content": "Green tea"}]\n',
    "broken.jsonl": '{"key": "tea", "content": \n',
    "empty.jsonl": "",
    "broken-tokens.json": "{",
    "unknown.toml": 'worksapce_dir = "."\n',
    "unquoted.toml": "timezone = Europe/Berlin\n",
    "heading.toml": '[abilities]\ntimezone = "Europe/Berlin"\n',
    "port.toml": "port = 9000\n",
    "colon.toml": 'timezone: "Europe/Berlin"\n',
    "number.toml": "workspace_dir = 5\n",
}
"""Files of the folder in which the mistakes are typed; a test adds those that are no text."""


class Mistake(NamedTuple):
    """A command line as it is typed, and words that its answer must have.

    ``rule`` is what is wrong, or what would be right; ``step`` is what to type or to do next.
    ``{port}`` is a port that another server has. ``variables`` are set in the shell.
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


COMMANDS = [
    Mistake("recal tea", "No such command 'recal'", "'abilities recall'"),
    Mistake("lst", "No such command 'lst'", "'abilities list'"),
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
    Mistake("token lst", "No such command 'lst'", "'abilities token list'"),
    Mistake("frobnicate", "No such command 'frobnicate'", "'abilities --help'"),
]

OPTIONS = [
    Mistake("recall tea --prety", "No such option '--prety'", "--pretty"),
    Mistake("serve --prot 9000", "No such option '--prot'", "--port"),
    Mistake("serve -p 9000", "No such option '-p'", "--port"),
    Mistake("recall tea -n team", "No such option '-n'", "--namespace"),
    Mistake("recall tea --workspace .", "No such option '--workspace'", "--workspace-dir"),
    Mistake("recall tea --dir .", "No such option '--dir'", "--workspace-dir"),
    Mistake("check --store memory.db", "No such option '--store'", "--store-url"),
    Mistake("check --db memory.db", "No such option '--db'", "--store-url"),
    Mistake("list --verbose", "No such option '--verbose'", "abilities list --help"),
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
    Mistake("import", "Missing argument 'FILE'", "abilities import memory.jsonl"),
    Mistake("backup", "Missing argument 'FILE|DIR'", "abilities backup memories.db"),
    Mistake("call", "Missing argument 'NAME'", "abilities call file_read_bulk"),
    Mistake("token add", "Missing option '--scope'", "read"),
    Mistake("list extra", "unexpected extra argument", "leave it out"),
    Mistake("setup cursor vscode", "setup takes CLIENT only", "leave it out"),
]

VALUES = [
    Mistake("serve --port 99999", "'--port'", "whole number from 0 to 65535"),
    Mistake("serve --port http", "'--port'", "whole number from 0 to 65535"),
    Mistake("graph goals --depth 10", "'--depth'", "whole number from 1 to 6"),
    Mistake("graph --depth goals", "'--depth'", "whole number from 1 to 6"),
    Mistake("graph goals --format png", "'--format'", "'tree', 'svg'"),
    Mistake("graph goals --direction up", "'--direction'", "'out'"),
    Mistake("catch-up --max-tokens 10", "'--max-tokens'", "whole number from 500 to 16000"),
    Mistake("token add --scope admin", "'--scope'", "'write'"),
    Mistake("token add --scope read --namespace 'a b'", "1 to 128 letters", "'_-.@:+='"),
    Mistake(
        "token add --scope metrics --namespace team",
        "for metrics opens no namespace",
        "leave out --namespace",
    ),
    Mistake("token revoke 12345678", "no token with the ID", "'abilities token list'", 1),
    Mistake("recall tea --namespace a/b", "1 to 128 letters", "'_-.@:+='"),
    Mistake("completion powershell", "'powershell' is not one of", "'bash'"),
    Mistake("serve --host 0.0.0.0", "without tokens only 127.0.0.1", "abilities token add"),
    Mistake("serve --port {port}", "Address already in use", "--port 0", 1),
    Mistake("explore --port {port}", "Address already in use", "--port 0", 1),
    Mistake("mcp --tools leen", "leen", "lean"),
    Mistake("call raed", "no ability named 'raed'", "choose one of: file_read_bulk"),
    Mistake("call read_files", "no ability named 'read_files'", "did you mean file_read_bulk"),
    Mistake("describe recal", "no ability named 'recal'", "did you mean recall"),
    Mistake("describe setup", "no ability named 'setup'", "abilities setup --help"),
]

PLACES = [
    Mistake("import missing.jsonl", "'missing.jsonl' does not exist", "Paths begin in"),
    Mistake("import .", "is a directory", "Name a file in it"),
    Mistake("restore missing.db", "'missing.db' does not exist", "Paths begin in"),
    Mistake("restore README.md --replace", "is not a backup", "'abilities import'", 1),
    Mistake("backup nowhere/copy.db", "no folder nowhere", "mkdir -p", 1),
    Mistake("export nowhere/all.jsonl", "no folder nowhere", "mkdir -p", 1),
    Mistake("export README.md", "is no export", "Choose another name", 1),
    Mistake("export --resume", "--resume", "name the file"),
    Mistake("graph tea -o nowhere/walk.svg", "nowhere/walk.svg", "create its folder", 1),
    Mistake("graph nokey", "No memory with this key", "memory_list", 1),
    Mistake("purge nokey --yes", "No memory with this key", "memory_list", 1),
    Mistake("init README.md", "README.md", "name another place", 1),
    Mistake("--workspace-dir nowhere recall tea", "workspace_dir", "create it"),
    Mistake("--workspace-dir README.md recall tea", "workspace_dir", "directory"),
    Mistake("--workspace-dir / recall tea", "workspace_dir must not be", "name a folder"),
    _set("check", "ABILITIES_STORE_URL", "sqlite:///none.db", "no store at", "store_url", 1),
    _set("backup x.db", "ABILITIES_STORE_URL", "sqlite:///none.db", "no store at", "store_url", 1),
]

ORDER = [
    Mistake(
        """call '{"paths": ["README.md"]}' file_read_bulk""",
        "the name comes first",
        "abilities call file_read_bulk",
    ),
    Mistake("call file_read_bulk {paths: [README.md]}", "came in pieces", "single quotes"),
    Mistake("file_read_bulk call", "No such command", "'abilities call file_read_bulk'"),
    Mistake("cursor setup", "No such command 'cursor'", "'abilities setup cursor'"),
    Mistake("add token --scope read", "No such command 'add'", "'abilities token add'"),
    Mistake("recall --namespace tea", "Missing argument 'QUESTION...'", 'abilities recall "When'),
]

JSON = [
    Mistake("call file_read_bulk README.md", "not valid JSON", "single quotes"),
    Mistake("""call read "{'items': ['README.md']}" """, "this is Python", '{"items": ["README'),
    Mistake("""call read '{"items": ["README.md"],}'""", "trailing comma", "Remove the comma"),
    Mistake("""call read '["README.md"]'""", "must be an object", "abilities describe read", 1),
    Mistake("""call read '{“items”: [“README.md”]}'""", "typographic", "straight"),
    Mistake("""call read 'items: [README.md]'""", "YAML", '{"paths": ["README.md"]}'),
    Mistake("""call read '{items: [README.md]}'""", "no quotes are left", "single quotes"),
    Mistake("call read ''", "there are none", '{"paths": ["README.md"]}'),
    Mistake("call recall 'When does it ship?'", "not valid JSON", "abilities describe recall"),
    Mistake(
        """call file_read_bulk '{"path": 5}'""", "did you mean 'paths'", "abilities describe", 1
    ),
    Mistake("""call file_list '{"limit": "many"}'""", "limit", "1", 1),
]

SETTINGS = [
    _set("list", "ABILITIES_WORKSPACE", ".", "is no setting", "workspace_dir", 0),
    _set("list", "ABILITIES_TIMEZONE", "Berlin", "timezone", "Europe/Berlin"),
    _set("list", "ABILITIES_MAX_RESPONSE_BYTES", "64k", "max_response_bytes", "whole number"),
    _set("list", "ABILITIES_TOOLS", "leen", "leen", "lean"),
    _set("list", "ABILITIES_DETAIL", "short", "detail", "'concise'"),
    _set("list", "ABILITIES_REDACT", "perhaps", "redact", "true or false"),
    _set("list", "ABILITIES_NAMESPACE", "a b", "namespace", "1 to 128 letters"),
    _set("list", "ABILITIES_CONFIG", "unknown.toml", "worksapce_dir", "did you mean workspace_dir"),
    _set("list", "ABILITIES_CONFIG", "unquoted.toml", "not valid TOML", 'timezone = "Eur'),
    _set("list", "ABILITIES_CONFIG", "colon.toml", "not valid TOML", 'timezone = "Eur'),
    _set("list", "ABILITIES_CONFIG", "heading.toml", "without a [heading]", "top of the file"),
    _set("list", "ABILITIES_CONFIG", "port.toml", "is no setting", "abilities serve --port"),
    _set("list", "ABILITIES_CONFIG", "number.toml", "workspace_dir", "path in quotes"),
    _set("list", "ABILITIES_CONFIG", "nowhere.toml", "does not exist", "create it"),
    _set(
        "token list", "ABILITIES_TOKENS_FILE", "broken-tokens.json", "cannot be read", "restore it"
    ),
]

_URL = "ABILITIES_STORE_URL"

STORES = [
    _set("recall tea", _URL, "memory.db", "store_url", "sqlite:///"),
    _set("recall tea", _URL, "sqlite://memory.db", "store_url", "sqlite:///"),
    _set("recall tea", _URL, "sqlite:memory.db", "store_url", "sqlite:///"),
    _set("recall tea", _URL, "mysql://localhost/memories", "store_url", "postgresql://"),
    _set("recall tea", _URL, "postgresql", "store_url", "postgresql://"),
    _set("recall tea", _URL, "sqlite:///README.md", "README.md", "store_url", 1),
    _set("recall tea", _URL, "sqlite:///.", "folder", "store_url", 1),
    _set("check", _URL, "sqlite:///other.db", "other.db", "store_url", 1),
]

IMPORTS = [
    Mistake("import README.md", "neither an export", 'one {"key"', 1),
    Mistake("import memories.csv", "neither an export", 'one {"key"', 1),
    Mistake("import array.json", "JSON array", "one object per line", 1),
    Mistake("import broken.jsonl", "neither an export", 'one {"key"', 1),
    Mistake("import empty.jsonl", "the file is empty", "Name another", 1),
    Mistake("import memories.jsonl.gz", "compressed", "gunzip -c", 1),
    Mistake("import other.db", "kv-memory", "docs/moving.md", 1),
    Mistake("import torn.db", "cannot be read", "from a backup", 1),
    Mistake("import memory.db", "a store of this package", "abilities export", 1),
]

SETUP = [
    Mistake("setup vim", "'vim' is not one of", "'cursor'"),
    Mistake("setup claude", "'claude' is not one of", "Did you mean claude-code or claude-desktop"),
    Mistake("setup Cursor", "'Cursor' is not one of", "Did you mean cursor"),
    Mistake("setup cursor --hooks", "--hooks is for claude-code only", "leave it out"),
    Mistake(
        "setup claude-desktop --project", "no configuration of a project", "leave out --project"
    ),
    Mistake("setup cursor --print --remove", "--print goes with neither", "leave those out"),
    Mistake("setup --remove", "name the client", "abilities setup CLIENT --remove"),
    Mistake("setup cursor --tools leen --print", "leen", "lean"),
    Mistake("setup gemini", "line 1", "nothing was changed", 1),
]

MISTAKES = [
    *COMMANDS,
    *OPTIONS,
    *VALUES,
    *PLACES,
    *ORDER,
    *JSON,
    *SETTINGS,
    *STORES,
    *IMPORTS,
    *SETUP,
]
