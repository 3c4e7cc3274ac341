"""Why some mutants survive: those that do what the code does, by function and operator.

An explanation covers every survivor of its operator in its function. Functions are named as Python
does (`Class.method`); a class stands for its decorators and fields, a constant for its own line.
"""

from typing import NamedTuple


class Explanation(NamedTuple):
    """Why mutants of one operator in one function cannot be noticed.

    ``operator`` is cosmic-ray's name for it, without the leading ``core/``.
    """

    module: str
    function: str
    operator: str
    reason: str


SLOTS = "Slots only save memory, and nothing assigns to a frozen field."
SIGNATURE = "The sign is the bare '*' of a signature, which only says how arguments are passed."
UNIT_IS_1_OR_2 = "A unit is one byte or two."
SLOWER_BRANCH = "The slower branch counts the same."
LAST_BY_NAME = "Of the names that are compared, this one sorts last."
NOT_ONE_CHARACTER = "Bytes from such a start or to such an end never decode to one character."
REMAINDER_OF_TWO = "The remainder is 0 or 1."
RACE = "How often a name is tried again shows only while another process keeps changing it."
ALWAYS_A_NUMBER = "The operating system always sets errno, so the default is never used."
COUNTED_BY_ONE = "The number grows by one, so it is equal to the limit before it is greater."

CHOSEN_NUMBER = "The number is a choice, and tests take it from here."

WALK = "helpers/walk.py"
BUDGET = "helpers/reply/budget.py"
TEXT = "helpers/text.py"
CONFINEMENT = "helpers/files/confinement.py"
BREAKER = "helpers/threads/circuit_breaker.py"

EXPLANATIONS = (
    Explanation(BREAKER, "STUCK_CALLS", "NumberReplacer", CHOSEN_NUMBER),
    Explanation(BREAKER, "STUCK_THREADS", "NumberReplacer", CHOSEN_NUMBER),
    Explanation(BREAKER, "LOST_THREADS", "NumberReplacer", CHOSEN_NUMBER),
    Explanation(BREAKER, "PAUSE_SECONDS", "NumberReplacer", CHOSEN_NUMBER),
    Explanation(BREAKER, "STEADY_TRIALS", "NumberReplacer", CHOSEN_NUMBER),
    Explanation(WALK, "Step", "ReplaceTrueWithFalse", SLOTS),
    Explanation(WALK, "WalkOutcome", "ReplaceTrueWithFalse", SLOTS),
    Explanation(BUDGET, "ItemSize", "ReplaceTrueWithFalse", SLOTS),
    Explanation(
        BUDGET,
        "share_room",
        "ReplaceComparisonOperator_Eq_LtE",
        "At least one item is always there.",
    ),
    Explanation(TEXT, "Encoding", "ReplaceTrueWithFalse", SLOTS),
    Explanation(TEXT, "Encoding.codec", "ReplaceComparisonOperator_Eq_LtE", UNIT_IS_1_OR_2),
    Explanation(TEXT, "decode", "ReplaceBinaryOperator_Mul_Div", SIGNATURE),
    Explanation(TEXT, "byte_length", "ReplaceComparisonOperator_Eq_Lt", SLOWER_BRANCH),
    Explanation(TEXT, "byte_length", "ReplaceComparisonOperator_Eq_LtE", UNIT_IS_1_OR_2),
    Explanation(TEXT, "byte_length", "NumberReplacer", SLOWER_BRANCH),
    Explanation(
        TEXT,
        "_MARKER_BASE",
        "NumberReplacer",
        "A marker stands for three bytes at most, and the code point after those is free.",
    ),
    Explanation(
        TEXT,
        "splits_character",
        "ReplaceComparisonOperator_Eq_GtE",
        f"{UNIT_IS_1_OR_2} {LAST_BY_NAME}",
    ),
    Explanation(
        TEXT,
        "splits_character",
        "NumberReplacer",
        f"{NOT_ONE_CHARACTER} Before the first unit there are none, and no surrogate.",
    ),
    Explanation(
        TEXT,
        "_is_joined",
        "NumberReplacer",
        "It counts from minus one, beginning at the cut, which is followed by an indicator too.",
    ),
    Explanation(TEXT, "_is_joined", "ReplaceComparisonOperator_Lt_NotEq", COUNTED_BY_ONE),
    Explanation(TEXT, "_is_joined", "ReplaceComparisonOperator_Eq_GtE", REMAINDER_OF_TWO),
    Explanation(
        TEXT,
        "Piece.resume",
        "ReplaceUnaryOperator_USub_Invert",
        "The version looks only at the last 4 KiB of the window, whatever its beginning.",
    ),
    Explanation(
        TEXT,
        "Piece.resume",
        "ReplaceUnaryOperator_USub_Not",
        "The version looks only at the last 4 KiB of the window, whatever its beginning.",
    ),
    Explanation(CONFINEMENT, "Policy", "ReplaceTrueWithFalse", SLOTS),
    Explanation(CONFINEMENT, "_MAX_RETRIES", "NumberReplacer", RACE),
    Explanation(CONFINEMENT, "_LinkResolver.__init__", "NumberReplacer", RACE),
    Explanation(CONFINEMENT, "_LinkResolver._expand_link", "NumberReplacer", RACE),
    Explanation(CONFINEMENT, "_LinkResolver._expand_link", "ReplaceComparisonOperator_Gt_Eq", RACE),
    Explanation(
        CONFINEMENT, "_LinkResolver._expand_link", "ReplaceComparisonOperator_Gt_GtE", RACE
    ),
    Explanation(
        CONFINEMENT,
        "open_file",
        "ReplaceComparisonOperator_Gt_NotEq",
        "An open file has at least one name.",
    ),
    Explanation(
        CONFINEMENT,
        "_LinkResolver.open",
        "ReplaceComparisonOperator_Eq_LtE",
        "The stack holds at least the root.",
    ),
    Explanation(CONFINEMENT, "translate_os_error", "NumberReplacer", ALWAYS_A_NUMBER),
)
