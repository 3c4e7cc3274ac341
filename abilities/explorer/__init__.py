"""The memory explorer: a page that shows people what an agent remembers, and what it would read.

The page itself stands in `static/`. It calls abilities as any other client does; what it needs
beside them are the internal abilities in `views`.
"""
