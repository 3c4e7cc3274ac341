"""Irregular forms: words that no stemmer brings together, such as "bought" and "buy".

A form that is a common word of its own too ("left", "found", "rose") is not listed.
"""

_ENGLISH = """
become became, begin began begun, bite bit bitten, blow blew blown, break broke broken,
bring brought, build built, buy bought, catch caught, choose chose chosen, come came,
draw drew drawn, drink drank drunk, drive drove driven, eat ate eaten, fall fell fallen,
feel felt, fight fought, fly flew flown, forget forgot forgotten, forgive forgave forgiven,
freeze froze frozen, get got gotten, give gave given, go went gone, grow grew grown, hear heard,
hide hid hidden, hold held, keep kept, know knew known, learn learnt, lend lent, lose lost,
make made, mean meant, meet met, pay paid, ride rode ridden, run ran, say said, see seen,
seek sought, sell sold, send sent, shake shook shaken, show shown, sing sang sung, sink sank sunk,
sit sat, sleep slept, speak spoke spoken, spend spent, stand stood, steal stole stolen,
stick stuck, strike struck, swear swore sworn, sweep swept, swim swam swum, take took taken,
teach taught, tell told, think thought, throw threw thrown, understand understood,
wake woke woken, wear wore worn, win won, write wrote written,
child children, foot feet, man men, mouse mice, tooth teeth, woman women
"""


def _list_forms(table: str) -> dict[str, str]:
    """Return each form with the word that it belongs to."""
    forms: dict[str, str] = {}

    for group in table.split(","):
        word, *others = group.split()
        forms.update(dict.fromkeys(others, word))

    return forms


IRREGULAR_FORMS: dict[str, dict[str, str]] = {"english": _list_forms(_ENGLISH)}
"""The forms per language, each with the word that it is indexed as."""
