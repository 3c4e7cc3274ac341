"""Statements that damage the recall index of a store, as tests of the check and of repair use them.

Those of recent changes need nothing else; the others need memories that have moved to blocks. Where
the engines have different SQL for it, each has its own.
"""

RECENT = (
    "UPDATE shelf SET doc = 77 WHERE key = 'k1'",
    "UPDATE shelf SET doc = -1 WHERE key = 'k1'",
    "UPDATE shelf SET doc = 9000000000000000000 WHERE key = 'k1'",
    "DELETE FROM recall_recent",
    "UPDATE recall_recent SET doc = doc + 1024",
    "UPDATE recall_recent SET doc = -1",
    "UPDATE recall_recent SET doc = 9000000000000000000",
    "UPDATE recall_recent SET archived = 1",
    "UPDATE recall_recent SET namespace = 'other'",
    "UPDATE recall_recent SET terms = substr(terms, 1, length(terms) - 1)",
    "UPDATE recall_recent SET terms = substr(terms, 3)",
    "UPDATE recall_recent SET weights = substr(weights, 2)",
    "DELETE FROM recall_language",
    "INSERT INTO recall_language VALUES ('english')",
    "UPDATE recall_language SET name = 'klingon'",
)
SQLITE_RECENT = (
    "UPDATE recall_recent SET namespace = CAST(x'ff' AS TEXT)",
    "UPDATE recall_recent SET terms = x''",
    "UPDATE recall_recent SET terms = CAST(terms || x'0a78' AS BLOB)",
    "UPDATE recall_recent SET terms = CAST(terms || x'ff' AS BLOB)",
    "UPDATE recall_recent SET terms = CAST(x'ff' || substr(terms, 2) AS BLOB)",
    "UPDATE recall_recent SET weights = x''",
    "UPDATE recall_recent SET weights = CAST(x'00ff' || substr(weights, 3) AS BLOB)",
    "INSERT INTO recall_terms VALUES ('conformance', 0, 0, 'content', 7, x'0041')",
    "INSERT INTO recall_terms VALUES ('conformance', -1, 0, 'content', -1, x'0041')",
    "UPDATE recall_language SET name = CAST(x'ff' AS TEXT)",
)
POSTGRES_RECENT = (
    "UPDATE recall_recent SET terms = ''",
    "UPDATE recall_recent SET terms = terms || '\\x0a78'",
    "UPDATE recall_recent SET terms = terms || '\\xff'",
    "UPDATE recall_recent SET terms = set_byte(terms, 0, 255)",
    "UPDATE recall_recent SET weights = ''",
    "UPDATE recall_recent SET weights = set_byte(weights, 0, 255)",
    "INSERT INTO recall_terms VALUES (0, 7, 0, 'conformance', 'content', '\\x0041')",
    "INSERT INTO recall_terms VALUES (-1, -1, 0, 'conformance', 'content', '\\x0041')",
)

BLOCKS = (
    "UPDATE recall_terms SET part = 7",
    "UPDATE recall_terms SET namespace = 'other'",
    "DELETE FROM recall_terms WHERE block = 1",
    "UPDATE recall_terms SET block = -1 WHERE block = 1",
    "UPDATE recall_terms SET block = 7 WHERE block = 1",
    "DELETE FROM recall_terms",
    "DELETE FROM recall_terms WHERE term = 'content'",
    "UPDATE recall_terms SET docs = substr(docs, 2)",
    "UPDATE recall_terms SET docs = substr(docs, 3) WHERE term = 'content'",
    "UPDATE recall_terms SET archived = 1",
)
SQLITE_BLOCKS = (
    "UPDATE recall_terms SET part = 1 << 60",
    "UPDATE recall_terms SET namespace = CAST(x'ff' AS TEXT)",
    "UPDATE recall_terms SET block = 1 << 60 WHERE block = 1",
    "UPDATE recall_terms SET docs = x''",
    "UPDATE recall_terms SET docs = CAST(docs || docs AS BLOB)",
    "UPDATE recall_terms SET docs = CAST(substr(docs, 1, 1) || x'01' || substr(docs, 3) AS BLOB)",
    "UPDATE recall_terms SET docs = zeroblob(9000)",
    "UPDATE recall_terms SET term = CAST(x'ff' AS TEXT) WHERE term = 'content'",
)
POSTGRES_BLOCKS = (
    "UPDATE recall_terms SET docs = ''",
    "UPDATE recall_terms SET docs = docs || docs",
    "UPDATE recall_terms SET docs = set_byte(docs, 1, 1)",
)
