"""Statements that damage the recall index of a store, as tests of the check and of repair use them.

Those of recent changes need nothing else; the others need memories that have moved to blocks.
"""

SQLITE_RECENT = (
    "DELETE FROM recall_docs",
    "DELETE FROM recall_docs WHERE doc = (SELECT max(doc) FROM recall_docs)",
    "UPDATE recall_docs SET doc = -1 WHERE doc = 1",
    "UPDATE recall_docs SET memory = 11 WHERE doc = 1",
    "UPDATE recall_docs SET namespace = 'other' WHERE doc = 1",
    "DELETE FROM recall_recent",
    "UPDATE recall_recent SET doc = doc + 1024",
    "UPDATE recall_recent SET archived = 1",
    "UPDATE recall_recent SET terms = ''",
    "UPDATE recall_recent SET terms = substr(terms, 1, length(terms) - 1)",
    "UPDATE recall_recent SET terms = terms || char(10) || 'x'",
    "UPDATE recall_recent SET terms = replace(terms, char(9), char(9) || '!')",
    "UPDATE recall_recent SET terms = replace(terms, char(9), char(9, 20000))",
    "UPDATE recall_recent SET terms = CAST(terms || x'ff' AS TEXT)",
    "INSERT INTO recall_terms VALUES (77, 0, 'content', 0, x'0041')",
    "DELETE FROM recall_language",
    "INSERT INTO recall_language VALUES ('english')",
    "UPDATE recall_language SET name = 'klingon'",
    "UPDATE recall_language SET name = CAST(x'ff' AS TEXT)",
)
SQLITE_BLOCKS = (
    "DELETE FROM recall_segments",
    "UPDATE recall_segments SET part = 7",
    "UPDATE recall_segments SET part = 1 << 60",
    "UPDATE recall_segments SET namespace = CAST(x'ff' AS TEXT)",
    "DELETE FROM recall_terms WHERE block = 1",
    "UPDATE recall_terms SET block = -1 WHERE block = 1",
    "UPDATE recall_terms SET block = 1 << 60 WHERE block = 1",
    "DELETE FROM recall_terms",
    "DELETE FROM recall_terms WHERE term = 'content'",
    "UPDATE recall_terms SET docs = x''",
    "UPDATE recall_terms SET docs = substr(docs, 2)",
    "UPDATE recall_terms SET docs = CAST(docs || docs AS BLOB)",
    "UPDATE recall_terms SET docs = zeroblob(9000)",
    "UPDATE recall_terms SET archived = 1",
    "UPDATE recall_terms SET term = CAST(x'ff' AS TEXT) WHERE term = 'content'",
)

POSTGRES_RECENT = (
    "DELETE FROM recall_recent",
    "UPDATE recall_recent SET weights = ''",
    "UPDATE recall_recent SET weights = substr(weights, 2)",
    "UPDATE recall_recent SET weights = set_byte(weights, 0, 255)",
    "UPDATE recall_recent SET terms = '{}'",
    "UPDATE recall_recent SET terms = terms[2:]",
    "UPDATE recall_recent SET doc = -1",
    "UPDATE recall_recent SET doc = 9000000000000000000",
    "UPDATE recall_recent SET archived = 1",
    "UPDATE recall_recent SET namespace = 'other'",
    "INSERT INTO recall_terms VALUES (7, 0, 'conformance', 'content', '\\x0041')",
    "INSERT INTO recall_terms VALUES (-1, 0, 'conformance', 'content', '\\x0041')",
    "UPDATE shelf SET doc = 77 WHERE key = 'k1'",
    "UPDATE shelf SET doc = -1 WHERE key = 'k1'",
    "UPDATE shelf SET doc = 9000000000000000000 WHERE key = 'k1'",
    "DELETE FROM recall_language",
    "INSERT INTO recall_language VALUES ('english')",
    "UPDATE recall_language SET name = 'klingon'",
)
POSTGRES_BLOCKS = (
    "DELETE FROM recall_terms",
    "DELETE FROM recall_terms WHERE term = 'content'",
    "UPDATE recall_terms SET docs = ''",
    "UPDATE recall_terms SET docs = substr(docs, 2)",
    "UPDATE recall_terms SET docs = docs || docs",
    "UPDATE recall_terms SET archived = 1",
    "UPDATE recall_terms SET block = 1",
    "UPDATE recall_terms SET namespace = 'other'",
)
