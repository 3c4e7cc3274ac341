"""Stop words: words too common in a language to tell one memory from another.

They are listed as `split_words` gives them, so "don't" stands as "don" and "t".
"""

_ENGLISH = """
a about above after again against all also am an and any are aren as at be because been before
being below between both but by can could couldn d did didn do does doesn doing don down during
each even few for from further had hadn has hasn have haven having he her here hers herself him
himself his how i if in into is isn it its itself just ll m many may me might more most much must
my myself no nor not now of off on once only or other our ours ourselves out over own re s same
shall she should shouldn so some such t than that the their theirs them themselves then there
these they this those through to too under until up upon us ve very was wasn we were weren what
when where which while who whom whose why will with would wouldn you your yours yourself
yourselves
"""

STOP_WORDS: dict[str, frozenset[str]] = {"english": frozenset(_ENGLISH.split())}
"""The stop words per language; a language that is not listed has none."""
