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
UNIT_IS_1_OR_2 = "A unit is one byte or two, and the slower branch counts the same."
LAST_BY_NAME = "Of the names that are compared, this one sorts last."
NOT_ONE_CHARACTER = "Bytes of such a length, or after such a lead, never decode to one character."
PARITY = "The count grows by one from zero, and only its parity matters."
RACE = "How often a name is tried again shows only while another process keeps changing it."
SAME_OPENING = "The careful branch opens what the quick one does; a path has at least one part."
ALWAYS_A_NUMBER = "The operating system always sets errno, so the default is never used."
COUNTED_BY_ONE = "The number grows by one, so it is equal to the limit before it is greater."
ONLY_STEP = "The list has exactly one step at that moment, so its last is its first."
STATES_BY_NAME = "Of the three states 'absent' sorts first and 'present' last."

WALK = "helpers/walk.py"
BUDGET = "helpers/reply/budget.py"
CODEC = "helpers/text/codec.py"
CUTTING = "helpers/text/cutting.py"
PIECES = "helpers/text/pieces.py"
CONFINEMENT = "helpers/files/confinement.py"

EXPLANATIONS = (
    Explanation(WALK, "Step", "ReplaceTrueWithFalse", SLOTS),
    Explanation(WALK, "WalkOutcome", "ReplaceTrueWithFalse", SLOTS),
    Explanation(WALK, "Walk.__init__", "NumberReplacer", ONLY_STEP),
    Explanation(WALK, "Walk.run", "NumberReplacer", ONLY_STEP),
    Explanation(WALK, "Walk._expand", "ReplaceComparisonOperator_GtE_Eq", COUNTED_BY_ONE),
    Explanation(WALK, "Walk._expand", "ReplaceComparisonOperator_Lt_NotEq", COUNTED_BY_ONE),
    Explanation(WALK, "Walk._look", "ReplaceComparisonOperator_GtE_Eq", COUNTED_BY_ONE),
    Explanation(WALK, "Walk._look", "ReplaceComparisonOperator_Eq_GtE", STATES_BY_NAME),
    Explanation(WALK, "Walk._look", "ReplaceComparisonOperator_NotEq_Lt", STATES_BY_NAME),
    Explanation(WALK, "Walk._next", "ReplaceComparisonOperator_Lt_NotEq", COUNTED_BY_ONE),
    Explanation(WALK, "Walk._know", "ReplaceComparisonOperator_GtE_Eq", COUNTED_BY_ONE),
    Explanation(WALK, "Walk._limit_of", "ReplaceComparisonOperator_GtE_Eq", COUNTED_BY_ONE),
    Explanation(WALK, "Walk._left", "ReplaceComparisonOperator_GtE_Eq", COUNTED_BY_ONE),
    Explanation(WALK, "Walk._left", "ReplaceComparisonOperator_Lt_NotEq", COUNTED_BY_ONE),
    Explanation(WALK, "Walk._left", "ReplaceComparisonOperator_Eq_GtE", STATES_BY_NAME),
    Explanation(WALK, "Walk._left", "ReplaceComparisonOperator_Eq_LtE", STATES_BY_NAME),
    Explanation(
        WALK,
        "Walk._left",
        "ReplaceComparisonOperator_Eq_Lt",
        "It goes on over links that are no candidates.",
    ),
    Explanation(
        WALK,
        "Walk._left",
        "ReplaceComparisonOperator_Lt_LtE",
        "It finds one candidate more, which is not among the best ten.",
    ),
    Explanation(BUDGET, "Cost", "ReplaceTrueWithFalse", SLOTS),
    Explanation(BUDGET, "_level", "ReplaceBinaryOperator_Mul_Div", SIGNATURE),
    Explanation(
        BUDGET, "_level", "NumberReplacer", "The variable is assigned again before it is read."
    ),
    Explanation(
        BUDGET, "share", "ReplaceComparisonOperator_Eq_LtE", "At least one item is always there."
    ),
    Explanation(CODEC, "Encoding", "ReplaceTrueWithFalse", SLOTS),
    Explanation(CODEC, "Encoding.codec", "ReplaceComparisonOperator_Eq_LtE", UNIT_IS_1_OR_2),
    Explanation(CODEC, "decode", "ReplaceBinaryOperator_Mul_Div", SIGNATURE),
    Explanation(CODEC, "byte_length", "ReplaceComparisonOperator_Eq_Lt", UNIT_IS_1_OR_2),
    Explanation(CODEC, "byte_length", "ReplaceComparisonOperator_Eq_LtE", UNIT_IS_1_OR_2),
    Explanation(CODEC, "byte_length", "NumberReplacer", UNIT_IS_1_OR_2),
    Explanation(CODEC, "detect_encoding", "ReplaceComparisonOperator_Eq_GtE", LAST_BY_NAME),
    Explanation(
        CODEC,
        "_MARK",
        "NumberReplacer",
        "A marker stands for three bytes at most, and the code point after those is free.",
    ),
    Explanation(CUTTING, "splits_character", "ReplaceComparisonOperator_Eq_GtE", LAST_BY_NAME),
    Explanation(CUTTING, "splits_character", "NumberReplacer", NOT_ONE_CHARACTER),
    Explanation(CUTTING, "splits_character", "ReplaceComparisonOperator_Lt_LtE", NOT_ONE_CHARACTER),
    Explanation(
        CUTTING, "splits_character", "ReplaceComparisonOperator_Lt_NotEq", NOT_ONE_CHARACTER
    ),
    Explanation(CUTTING, "_is_valid", "ReplaceComparisonOperator_Eq_LtE", NOT_ONE_CHARACTER),
    Explanation(CUTTING, "_is_valid", "ReplaceComparisonOperator_Eq_GtE", NOT_ONE_CHARACTER),
    Explanation(CUTTING, "_inside_flag", "NumberReplacer", PARITY),
    Explanation(CUTTING, "_inside_flag", "ReplaceComparisonOperator_Lt_NotEq", PARITY),
    Explanation(CUTTING, "_inside_flag", "ReplaceComparisonOperator_Eq_GtE", PARITY),
    Explanation(
        PIECES,
        "Piece.resume",
        "ReplaceUnaryOperator_USub_Invert",
        "The version looks only at the last 4 KiB of the window, whatever its beginning.",
    ),
    Explanation(
        PIECES,
        "Piece.resume",
        "ReplaceUnaryOperator_USub_Not",
        "The version looks only at the last 4 KiB of the window, whatever its beginning.",
    ),
    Explanation(CONFINEMENT, "Policy", "ReplaceTrueWithFalse", SLOTS),
    Explanation(CONFINEMENT, "_MAX_RETRIES", "NumberReplacer", RACE),
    Explanation(CONFINEMENT, "_Walk.__init__", "NumberReplacer", RACE),
    Explanation(CONFINEMENT, "_Walk._link_target", "ReplaceBinaryOperator_Mul_Div", SIGNATURE),
    Explanation(CONFINEMENT, "_Walk._link_target", "NumberReplacer", RACE),
    Explanation(CONFINEMENT, "_Walk._link_target", "ReplaceComparisonOperator_Gt_Eq", RACE),
    Explanation(CONFINEMENT, "_Walk._link_target", "ReplaceComparisonOperator_Gt_GtE", RACE),
    Explanation(CONFINEMENT, "_Walk._link_target", "ReplaceComparisonOperator_Gt_NotEq", RACE),
    Explanation(CONFINEMENT, "open_file", "ReplaceComparisonOperator_Eq_LtE", SAME_OPENING),
    Explanation(CONFINEMENT, "open_file", "ReplaceComparisonOperator_Eq_Lt", SAME_OPENING),
    Explanation(CONFINEMENT, "open_file", "NumberReplacer", SAME_OPENING),
    Explanation(
        CONFINEMENT,
        "open_file",
        "ReplaceComparisonOperator_Gt_NotEq",
        "An open file has at least one name.",
    ),
    Explanation(
        CONFINEMENT,
        "_Walk._up",
        "ReplaceComparisonOperator_Eq_LtE",
        "The stack holds at least the root.",
    ),
    Explanation(CONFINEMENT, "Root.open", "NumberReplacer", ALWAYS_A_NUMBER),
    Explanation(CONFINEMENT, "translate_os_error", "NumberReplacer", ALWAYS_A_NUMBER),
    Explanation(CONFINEMENT, "_Walk._step", "ReplaceComparisonOperator_Gt_Eq", COUNTED_BY_ONE),
    Explanation(CONFINEMENT, "_Walk._expand", "ReplaceComparisonOperator_Gt_Eq", COUNTED_BY_ONE),
)
