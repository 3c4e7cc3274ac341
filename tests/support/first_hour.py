"""The mistakes of a first hour as a table: how each is made, what is said, and what to do."""

import shlex
from collections.abc import Mapping
from typing import NamedTuple


class Mistake(NamedTuple):
    """A command line with a mistake; ``{here}`` stands for the folder of the samples.

    ``words`` are in what is said and name the mistake, ``step`` is in it and says what to do.
    ``code`` is the exit code. ``config`` is the settings file, ``blocked`` a module that cannot be
    imported. ``unprivileged`` runs the command as a user who owns nothing.
    """

    name: str
    command: list[str]
    words: str
    step: str
    code: int = 2
    variables: Mapping[str, str] = {}
    config: bytes | None = None
    stdin: str = ""
    blocked: str = ""
    unprivileged: bool = False


class Request(NamedTuple):
    """An HTTP request with a mistake; ``{token}`` stands for a token that may read."""

    name: str
    method: str
    path: str
    status: int
    words: str
    step: str
    headers: Mapping[str, str] = {}
    body: str | None = None
    needs_token: bool = False


def _type(
    name: str,
    typed: str,
    words: str,
    step: str,
    code: int = 2,
    *,
    config: bytes | None = None,
    blocked: str = "",
    unprivileged: bool = False,
    **settings: str,
) -> Mistake:
    """Return the mistake of whoever types a line after `abilities`, with settings in variables."""
    variables = {f"ABILITIES_{setting}": value for setting, value in settings.items()}
    command = shlex.split(typed)
    return Mistake(name, command, words, step, code, variables, config, "", blocked, unprivileged)


# fmt: off
JSON_MISTAKES = [
    _type("the shell ate the quotes", "call file_read_bulk '{paths: [notes.md]}'",
          "no quotes are left", "Put single quotes around it"),
    _type("the shell cut the JSON at a space", """call file_read_bulk '{"paths":' '["a"]}'""",
          "they came in pieces", "Put them in single quotes"),
    _type("a Python dict", """call file_read_bulk "{'paths': ['notes.md']}" """, "this is Python",
          """As JSON it is: '{"paths": ["notes.md"]}'"""),
    _type("Python's True", """call file_read_bulk '{"paths": True}'""", "this is Python",
          """As JSON it is: '{"paths": true}'"""),
    _type("typographic quotes", "call file_read_bulk '{“paths”: [“notes.md”]}'",
          "the quotes are typographic", "Replace them by straight ones"),
    _type("a comma too many", """call file_read_bulk '{"paths": ["notes.md"],}'""",
          "trailing comma", "Remove the comma"),
    _type("YAML", "call file_read_bulk 'paths: [notes.md]'", "looks like YAML",
          "In JSON it looks like"),
    _type("a name where JSON is due", "call file_read_bulk notes.md", "not valid JSON",
          "Put them in single quotes"),
    _type("JSON that ends early", """call file_read_bulk '{"paths": ['""", "EOF while parsing",
          "Put them in single quotes"),
    _type("nothing on stdin", "call file_read_bulk -", "there are none",
          "Send an object, for example"),
    _type("an array for an object", """call file_read_bulk '["notes.md"]'""",
          "The arguments must be an object", '"type":"object"', 1),
    _type("no arguments at all", "call file_read_bulk", "paths is missing", '"field":"paths"', 1),
    _type("a wrong argument", """call file_read_bulk '{"path": ["notes.md"]}'""", '"field":"path"',
          "did you mean 'paths'?", 1),
]

FILE_MISTAKES = [
    _type("a missing file", """call file_read_bulk '{"paths": ["nots.md"]}'""", "NOT_FOUND",
          "No such file in the agent directory or workspace", 0),
    _type("a folder for a file", """call file_read_bulk '{"paths": ["folder"]}'""", "INVALID_INPUT",
          "Path is a directory", 0),
    _type("an absolute path", """call file_read_bulk '{"paths": ["/etc/hosts"]}'""",
          "INVALID_INPUT", "Use a path relative to the workspace", 0),
    _type("a file without rights", """call file_read_bulk '{"paths": ["locked.md"]}'""",
          "PERMISSION_ERROR", "File is not readable", 0, unprivileged=True),
    _type("the workspace is the disk", "--workspace-dir / call file_list",
          "workspace_dir must not be '/'", "name a folder that you want to share"),
    _type("the workspace is the home", "call file_list", "this is your home directory",
          "name a folder", WORKSPACE_DIR="{here}/home"),
    _type("the workspace is missing", "call file_list", "It is set by ABILITIES_WORKSPACE_DIR",
          "create it, or name another folder", WORKSPACE_DIR="{here}/none"),
    _type("the workspace is a file", "--workspace-dir notes.md call file_list",
          "It is set by the option --workspace-dir", "is not a directory"),
    _type("the agent directory is a file", "call file_list", "config.toml, line 2",
          "agent_dir: {here}/ws/notes.md is not a directory",
          config=b'\nagent_dir = "{here}/ws/notes.md"\n'),
    _type("init into a file", "init notes.md", "notes.md/memory", "a part of this path is a file",
          1),
]

SETTINGS_MISTAKES = [
    _type("text without quotes in the settings file", "list",
          "config.toml is not valid TOML: Invalid value (at line 1, column 12)", "text in quotes",
          config=b"timezone = Europe/Berlin\n"),
    _type("a settings file in another encoding", "list", "config.toml is not text in UTF-8",
          "save it as such", config=b'timezone = "\xff"\n'),
    _type("a missing settings file", "list", "{here}/none.toml does not exist",
          "correct ABILITIES_CONFIG", CONFIG="{here}/none.toml"),
    _type("a settings file that is a folder", "list", "{here}/ws cannot be read: Is a directory",
          "it must be a file", CONFIG="{here}/ws"),
    _type("a settings file without rights", "list", "{here}/locked.toml cannot be read",
          "a file that this user may read", CONFIG="{here}/locked.toml", unprivileged=True),
    _type("an unknown setting", "list", "config.toml, line 1: workspace is no setting",
          "did you mean workspace_dir?", config=b'workspace = "/tmp"\n'),
    _type("settings beneath a heading", "list", "config.toml, line 1: abilities is no setting",
          "at the top of the file", config=b'[abilities]\ntimezone = "UTC"\n'),
    _type("text for a number", "list", "config.toml, line 2: max_response_bytes",
          "must be a whole number", config=b'# sizes\nmax_response_bytes = "much"\n'),
    _type("a number out of bounds", "list", "config.toml, line 1: max_response_bytes",
          "must be at least 40000", config=b"max_response_bytes = 10\n"),
    _type("a number for names", "list", "config.toml, line 1: disabled", "must be a list of names",
          config=b"disabled = 3\n"),
    _type("a number for a path", "list", "config.toml, line 1: workspace_dir",
          "must be a path in quotes", config=b"workspace_dir = 5\n"),
    _type("a wrong word", "list", "ABILITIES_DETAIL: detail", "must be one of 'full' or 'concise'",
          DETAIL="short"),
    _type("neither true nor false", "list", "ABILITIES_REDACT: redact", "must be true or false",
          REDACT="perhaps"),
    _type("a wrong time zone", "list", "ABILITIES_TIMEZONE: timezone is not a known time zone",
          "use a name such as 'Europe/Berlin'", TIMEZONE="Mars"),
    _type("a bad namespace", "list", "ABILITIES_NAMESPACE: namespace", "1 to 128 letters",
          NAMESPACE="a b"),
    _type("an unknown profile of tools", "list", "'leen' is neither a profile nor an ability",
          "did you mean 'lean'?", TOOLS="leen"),
    _type("unknown tools", "list", "ABILITIES_TOOLS: tools", "must name a profile or an ability",
          TOOLS=""),
    _type("a misspelt name in disabled", "list", "disabled: 'memory_gett' is not an ability",
          "did you mean 'memory_get'?", 0, DISABLED="memory_gett"),
    _type("a misspelt variable", "list", "ABILITIES_WORKSPACE is ignored",
          "did you mean workspace_dir?", 0, WORKSPACE="/tmp"),
    _type("the port in a variable", "list", "ABILITIES_PORT is ignored", "abilities serve --port",
          0, PORT="9000"),
    _type("an embedder that is not installed", "call get_memory_stats",
          "embedder 'none' is not installed", "It is set by ABILITIES_EMBEDDER", EMBEDDER="none"),
]

STORE_MISTAKES = [
    _type("another database's URL", "call get_memory_stats", "ABILITIES_STORE_URL: store_url",
          "must be 'sqlite:///' and a path", STORE_URL="mysql://localhost/x"),
    _type("a path for a URL", "call get_memory_stats", "ABILITIES_STORE_URL: store_url",
          "for example 'sqlite:///~/.abilities/memory.db'", STORE_URL="memory.db"),
    _type("a store that is a folder", "call get_memory_stats",
          "store_url names the folder {here}/ws", "name a file in it", 1,
          STORE_URL="sqlite:///{here}/ws"),
    _type("a store beneath a file", "call get_memory_stats",
          "store_url leads through {here}/ws/notes.md", "name another place", 1,
          STORE_URL="sqlite:///{here}/ws/notes.md/x.db"),
    _type("a store that is a text", "call get_memory_stats",
          "notes.md does not begin as a store does", "let store_url name another file", 1,
          STORE_URL="sqlite:///{here}/ws/notes.md"),
    _type("a store that is another database", "check", "foreign.db does not begin as a store does",
          "let store_url name another file", 1, STORE_URL="sqlite:///{here}/ws/foreign.db"),
    _type("a store of a newer version", "check", "written by a newer version",
          "install the version that wrote the store", 1, STORE_URL="sqlite:///{here}/ws/newer.db"),
    _type("a store without rights", "call get_memory_stats", "denies access to this service",
          "let this user read and write it", 1, STORE_URL="sqlite:///{here}/locked/memory.db",
          unprivileged=True),
    _type("PostgreSQL does not run", "call get_memory_stats", "The memory store is not available",
          "check that the database runs", 1, STORE_URL="postgresql://u@127.0.0.1:1/none"),
    _type("an unknown host", "call get_memory_stats", "The memory store is not available",
          "that store_url names it", 1, STORE_URL="postgresql://u@host.invalid/none"),
    _type("no store yet", "export", "there is no store at {here}/none.db",
          "it is created when it is first used", 1, STORE_URL="sqlite:///{here}/none.db"),
    _type("a missing memory", "graph none", "No memory with this key", "abilities call memory_list",
          1),
]

TRANSFER_MISTAKES = [
    _type("an import of a missing file", "import none.jsonl", "'none.jsonl' does not exist",
          "Try 'abilities import --help'"),
    _type("an import of a folder", "import {here}/locked", "The folder has no sessions",
          "Those of Claude Code are in ~/.claude/projects", 1),
    _type("an import of a table", "import table.csv", "The file is neither an export",
          'To import other texts, write one {"key": "..."', 1),
    _type("an import of bytes", "import bytes.jsonl", "The file is neither an export",
          'To import other texts, write one {"key": "..."', 1),
    _type("an import of a compressed file", "import memory.jsonl.gz", "The file is compressed",
          "gunzip -c FILE | abilities import -", 1),
    _type("an import of an empty file", "import empty.jsonl", "the file is empty",
          "Name another one", 1),
    _type("an export over another file", "export notes.md",
          "notes.md already exists, and is no export", "Choose another name", 1),
    _type("an export to a device", "export /dev/null", "/dev/null is no ordinary file",
          "to print an export, name none", 1),
    _type("an export into no folder", "export none/x.jsonl", "there is no folder none",
          "mkdir -p none", 1),
    _type("an export without rights", "export {here}/ws/x.jsonl", "x.jsonl.part: Permission denied",
          "choose a place where this user has rights", 1,
          STORE_URL="sqlite:///{here}/open/memory.db", unprivileged=True),
    _type("a backup over a file", "backup notes.md", "notes.md already exists; nothing was changed",
          "nothing was changed. Choose another name", 1),
    _type("a backup into no folder", "backup none/x.db", "there is no folder none", "mkdir -p none",
          1),
    _type("a backup into a folder", "backup .", ". is a folder. Name a file in it", "--keep 7", 1),
    _type("a restore of a file that is not a store", "restore notes.md --replace",
          "notes.md is not a backup of a store", "use 'abilities import'", 1),
    _type("a restore over a store", "restore newer.db", "already exists; nothing was changed",
          "add --replace", 1),
    _type("a drawing into no folder", "graph tea -o none/x.svg", "none/x.svg: No such file",
          "create its folder", 1),
]

COMMAND_MISTAKES = [
    _type("an unknown command", "cal file_list", "No such command 'cal'",
          "Did you mean 'abilities call'?"),
    _type("an ability for a command", "file_list", "No such command 'file_list'",
          "Did you mean 'abilities call file_list'?"),
    _type("an unknown ability", "call file_readbulk", "no ability named 'file_readbulk'",
          "did you mean file_read_bulk?"),
    _type("an unknown option", "call file_list --prety", "No such option '--prety'",
          "Did you mean '--pretty'?"),
    _type("a token without a scope", "token add", "Missing option '--scope'", "Choose from"),
    _type("a token of a wrong scope", "token add --scope reed", "'reed' is not one of",
          "'read', 'write'"),
    _type("a token for a bad namespace", "token add --scope read --namespace 'a b'",
          "a namespace is", "1 to 128 letters"),
    _type("an unknown token", "token revoke none", "no token with the ID 'none'",
          "'abilities token list' shows the IDs", 1),
    _type("a tokens file that holds something else", "token list",
          "{here}/ws/notes.md: the tokens file cannot be read", "remove it and make new tokens",
          TOKENS_FILE="{here}/ws/notes.md"),
    _type("a tokens file without rights", "token add --scope read", "{here}/locked/tokens.json",
          "let this user read it", TOKENS_FILE="{here}/locked/tokens.json", unprivileged=True),
    _type("a port in use", "serve --port {port}", "Address already in use",
          "--port 0 takes a free one", 1),
    _type("a port out of range", "serve --port 99999", "it must be a whole number",
          "from 0 to 65535"),
    _type("a server for all without tokens", "serve --host 0.0.0.0",
          "without tokens only 127.0.0.1", "Create a token first: abilities token add"),
    _type("no MCP installed", "mcp", "version 2 of the MCP SDK is not installed",
          "pip install 'agent-abilities[mcp]'", blocked="mcp"),
    _type("no server installed", "serve --port 0", "serving is not installed",
          "pip install 'agent-abilities[http", blocked="uvicorn"),
    _type("no PostgreSQL driver installed", "call get_memory_stats", "PostgreSQL is not installed",
          "pip install 'agent-abilities[postgres]'", STORE_URL="postgresql://u@localhost/x",
          blocked="abilities.helpers.store.postgres.store"),
    _type("a demonstration without MCP", "demo", "the demonstration needs MCP",
          "pip install 'agent-abilities[mcp]'", blocked="mcp"),
]

REQUESTS = [
    Request("no body", "POST", "/api/abilities/file_list", 400, "Send a JSON object",
            "within the size and time limits"),
    Request("a form for JSON", "POST", "/api/abilities/file_list", 400, "Send a JSON object",
            "within the size and time limits",
            {"content-type": "application/x-www-form-urlencoded"}, body="a=b"),
    Request("GET for POST", "GET", "/api/abilities/file_list", 405,
            "nothing at this address for this method", "/docs has the rest"),
    Request("a wrong address", "POST", "/abilities/file_list", 404, "nothing at this address",
            "/docs has the rest", body="{}"),
    Request("an unknown ability over HTTP", "POST", "/api/abilities/file_lst", 404,
            "No ability has this name", "did you mean 'file_list'?", body="{}"),
    Request("an MCP client at / for /mcp", "POST", "/", 405, "nothing at this address",
            "MCP is at /mcp", body='{"jsonrpc":"2.0","id":1,"method":"ping"}'),
    Request("an MCP client at /sse", "GET", "/sse", 404, "nothing at this address",
            "MCP is at /mcp"),
    Request("another host name", "GET", "/api/abilities", 421, "does not answer to that host name",
            "allowed_hosts adds names", {"host": "example.org"}),
    Request("a page of another site", "GET", "/api/abilities", 403, "Pages of other sites",
            "may not call this server", {"origin": "https://example.org"}),
    Request("no token", "GET", "/api/abilities", 401, "A valid token is needed",
            "send 'Authorization: Bearer TOKEN'", needs_token=True),
    Request("a token without Bearer", "GET", "/api/abilities", 401, "A valid token is needed",
            "'Authorization: Bearer TOKEN'", {"authorization": "{token}"}, needs_token=True),
    Request("a wrong token", "GET", "/api/abilities", 401, "A valid token is needed",
            "'Authorization: Bearer TOKEN'", {"authorization": "Bearer abl_x"}, needs_token=True),
    Request("a token in the URL", "GET", "/api/abilities?token={token}", 401,
            "A valid token is needed", "'Authorization: Bearer TOKEN'", needs_token=True),
    Request("a token that may not write", "POST", "/api/abilities/store_memory", 403,
            "The scope does not allow that", "'read' changes nothing",
            {"authorization": "Bearer {token}"}, body='{"type": "core", "content": "x"}',
            needs_token=True),
]
# fmt: on

COMMANDS = [
    *JSON_MISTAKES,
    *FILE_MISTAKES,
    *SETTINGS_MISTAKES,
    *STORE_MISTAKES,
    *TRANSFER_MISTAKES,
    *COMMAND_MISTAKES,
]
