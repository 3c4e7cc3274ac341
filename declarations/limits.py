"""Limits on the requests of callers, each defined once; the published schemas show them.

A ``DEFAULT`` holds unless the caller sets another limit; a ``MAX`` or ``MIN`` is the largest or the
smallest that a caller may set or send.
"""

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON client can hold exactly (RFC 8259, section 6)."""

TOKEN_BYTES = 4
"""Bytes of UTF-8 that count as one token."""

# Bulk requests, and files
MAX_ITEMS = 25
DEFAULT_READ_CHARS = 20_000  # returned per item
MAX_READ_CHARS = 100_000
MAX_PATH_CHARS = 1_024  # also of a glob pattern
MAX_LIST_POSITION_CHARS = 1_100  # of the cursor of a listing: a path, and some room
DEFAULT_LISTED_FILES = 200
MAX_LISTED_FILES = 500

# One memory
MAX_KEY_CHARS = 200
MAX_CONTENT_CHARS = 5_000  # in single writes and walks, from the specifications
MAX_LONG_CONTENT_CHARS = 200_000  # in `remember`, an import, or a program
MAX_SUMMARY_CHARS = 500
MAX_CATEGORY_CHARS = 50
MAX_TAGS = 10
MAX_TAG_CHARS = 30
MAX_ABOUT = 10
MAX_ABOUT_CHARS = 200
MAX_LINK_TYPE_CHARS = 50
MAX_LINK_TERM_CHARS = 200
MAX_LINKS = 1_000  # that one call may add, change or remove; a memory may have more
MAX_METADATA_BYTES = 4_096  # as JSON
MAX_METADATA_DEPTH = 16  # nested objects and arrays, the outermost included
MAX_ACCESS_COUNT = MAX_SAFE_INTEGER  # further accesses are not counted

# Memories shown with a file that is read
MAX_REMEMBERED = 3
MAX_REMEMBERED_BYTES = 300  # of all of them, as JSON

# Queries, lists and histories: entries of one page
MAX_SEARCH_CHARS = 200
MAX_QUERY_TAGS = 100  # the specification sets no maximum, and a request needs a bound
DEFAULT_QUERY_MEMORIES = 10
MAX_QUERY_MEMORIES = 100
DEFAULT_LISTED_MEMORIES = 100
MAX_LISTED_MEMORIES = 500
DEFAULT_ENTRIES = 20  # of a memory's history
MAX_ENTRIES = 100
DEFAULT_CHANGES = 100
MAX_CHANGES = 500

# Walks: links in a row, new memories from each memory, memories in all
DEFAULT_DEPTH = 3
MAX_DEPTH = 6
DEFAULT_BREADTH = 5
MAX_BREADTH = 20
DEFAULT_TOTAL = 20
MAX_TOTAL = 50

# `recall`
MAX_QUESTIONS = 8
MAX_QUESTION_CHARS = 1_000
DEFAULT_RECALL_TOKENS = 2_000  # of the whole answer
MIN_RECALL_TOKENS = 400  # for one question
MIN_FURTHER_TOKENS = 300  # each further question adds so many to the smallest limit
MAX_RECALL_TOKENS = 16_000
DEFAULT_HOPS = 2  # links in a row
MAX_HOPS = 2
MAX_WITHIN_DAYS = 36_500  # a century

# `remember`
MAX_OPERATIONS = 50
MAX_OPERATIONS_BYTES = 200_000  # of all of them, as JSON

# `read`
MIN_READ_TOKENS = 1_000
MAX_READ_TOKENS = 250_000
MAX_WEIGHT = 9  # the share of an item, relative to the default of 1
DEFAULT_GLOB_FILES = 25
MAX_GLOB_FILES = 100
MAX_GLOBS_FILES = 200  # of all globs of a batch together
MAX_HITS = 100
DEFAULT_CONTEXT_LINES = 2  # before and after a hit
MAX_CONTEXT_LINES = 10
MAX_SEARCHED_CHARS = 1_000  # of a text or pattern
MAX_NOTE_DAYS = 31  # that one item may name
MAX_CURSOR_CHARS = 1_200  # a path, a resume point, and some room
