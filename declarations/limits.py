"""Limits on the requests of callers, each defined once; the published schemas show them."""

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON client can hold exactly (RFC 8259, section 6)."""

MAX_ITEMS = 25
"""Items of one bulk request."""

DEFAULT_READ_CHARS = 20_000
"""Characters returned per item, unless the caller sets another limit."""

MAX_READ_CHARS = 100_000
"""The most characters that a caller may ask for per item."""

MAX_PATH_CHARS = 1_024
"""Characters of a path or a glob pattern."""

MAX_LIST_POSITION_CHARS = 1_100
"""Characters of the cursor of a listing: a path, and some room."""

DEFAULT_LISTED_FILES = 200
"""Files of one listing, unless the caller sets another limit."""

MAX_LISTED_FILES = 500
"""The most files that a caller may ask for in one listing."""

MAX_KEY_CHARS = 200
"""Characters of a memory's key."""

MAX_CONTENT_CHARS = 5_000
"""Characters of a memory's content in single writes and walks, from the specifications."""

MAX_LONG_CONTENT_CHARS = 200_000
"""Characters of a memory's content in `remember`, an import, or a program."""

MAX_SUMMARY_CHARS = 500
"""Characters of a memory's summary."""

MAX_CATEGORY_CHARS = 50
"""Characters of a memory's category."""

MAX_TAGS = 10
"""Tags of one memory."""

MAX_QUERY_TAGS = 100
"""Tags that a query may ask for; the specification sets no maximum, and a request needs a bound."""

MAX_TAG_CHARS = 30
"""Characters of a tag."""

MAX_ABOUT = 10
"""Paths and patterns that one memory may declare to be about."""

MAX_ABOUT_CHARS = 200
"""Characters of such a path or pattern."""

MAX_REMEMBERED = 3
"""Memories shown with a file that is read."""

MAX_REMEMBERED_BYTES = 300
"""Bytes of these memories together, as JSON."""

MAX_LINK_TYPE_CHARS = 50
"""Characters of a link's type."""

MAX_LINK_TERM_CHARS = 200
"""Characters of a link's term."""

MAX_LINKS = 1_000
"""Links that one call may add, change or remove; a memory may have more."""

MAX_METADATA_BYTES = 4_096
"""Bytes of a memory's metadata as JSON."""

MAX_METADATA_DEPTH = 16
"""Nested objects and arrays of a memory's metadata, the outermost included."""

MAX_ACCESS_COUNT = MAX_SAFE_INTEGER
"""Accesses of a memory that are counted; further ones are not."""

MAX_SEARCH_CHARS = 200
"""Characters of the text that a query searches for."""

DEFAULT_QUERY_MEMORIES = 10
"""Memories on one page of a query, unless the caller sets another limit."""

MAX_QUERY_MEMORIES = 100
"""The most memories that a caller may ask for on one page of a query."""

DEFAULT_DEPTH = 3
"""Links in a row that a walk follows, unless the caller sets another limit."""

MAX_DEPTH = 6
"""The most links in a row that a walk may follow."""

DEFAULT_BREADTH = 5
"""New memories that a walk takes from each memory, unless the caller sets another limit."""

MAX_BREADTH = 20
"""The most new memories that a walk may take from each memory."""

DEFAULT_TOTAL = 20
"""Memories that a walk retrieves in total, unless the caller sets another limit."""

MAX_TOTAL = 50
"""The most memories that a walk may retrieve in total."""

MAX_QUESTIONS = 8
"""Questions of one recall."""

MAX_QUESTION_CHARS = 1_000
"""Characters of a question."""

DEFAULT_RECALL_TOKENS = 2_000
"""Tokens of the whole answer of a recall, unless the caller sets another limit."""

MIN_RECALL_TOKENS = 400
"""The smallest limit that a caller may set for a recall of one question."""

MIN_FURTHER_TOKENS = 300
"""Tokens that each further question adds to the smallest limit."""

MAX_RECALL_TOKENS = 16_000
"""The largest limit that a caller may set for a recall."""

TOKEN_BYTES = 4
"""Bytes of UTF-8 that count as one token."""

DEFAULT_HOPS = 2
"""Links in a row that a recall follows, unless the caller sets another limit."""

MAX_HOPS = 2
"""The most links in a row that a recall may follow."""

MAX_WITHIN_DAYS = 36_500
"""Days that a recall may look back: a century."""

MAX_OPERATIONS = 50
"""Operations of one `remember`."""

MAX_OPERATIONS_BYTES = 200_000
"""Bytes of all operations of one `remember` together, as JSON."""

DEFAULT_LISTED_MEMORIES = 100
"""Memories of one list, unless the caller sets another limit."""

MAX_LISTED_MEMORIES = 500
"""The most memories that a caller may ask for in one list."""

DEFAULT_ENTRIES = 20
"""Entries of a memory's history on one page, unless the caller sets another limit."""

MAX_ENTRIES = 100
"""The most entries that a caller may ask for on one page of a history."""

DEFAULT_CHANGES = 100
"""Changes on one page, unless the caller sets another limit."""

MAX_CHANGES = 500
"""The most changes that a caller may ask for on one page."""

MIN_READ_TOKENS = 1_000
"""The smallest limit that a caller may set for a mixed batch."""

MAX_READ_TOKENS = 250_000
"""The largest limit that a caller may set for a mixed batch."""

MAX_WEIGHT = 9
"""The largest share of an item of a mixed batch, relative to the default of 1."""

DEFAULT_GLOB_FILES = 25
"""Files of one glob in a mixed batch, unless the caller sets another limit."""

MAX_GLOB_FILES = 100
"""The most files that a caller may ask for in one glob of a mixed batch."""

MAX_GLOBS_FILES = 200
"""Files of all globs of a mixed batch together."""

MAX_HITS = 100
"""Hits of one search of a mixed batch."""

DEFAULT_CONTEXT_LINES = 2
"""Lines shown before and after a hit, unless the caller sets another number."""

MAX_CONTEXT_LINES = 10
"""The most lines that a caller may ask for before and after a hit."""

MAX_SEARCHED_CHARS = 1_000
"""Characters of the text or pattern that a search of a mixed batch looks for."""

MAX_NOTE_DAYS = 31
"""Days of notes that one item of a mixed batch may name."""

MAX_CURSOR_CHARS = 1_200
"""Characters of an item's cursor: a path, a resume point, and some room."""
