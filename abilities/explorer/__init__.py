"""The memory explorer: a page for people, who want to see what an agent remembers and what it would be handed.

The page (`static/`) calls abilities as any other client does; `views` is what it asks beside them.
"""
